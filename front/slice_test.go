package front_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/internal/testkit"
)

// slicedFile is a file behind an upstream that responds in ranges.
type slicedFile struct {
	mu      sync.Mutex
	content string
	etag    string
	ranges  []string                    // of the requests
	serve   map[string]http.HandlerFunc // respond to ranges
}

func (f *slicedFile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	byteRange := r.Header.Get("Range")
	f.mu.Lock()
	f.ranges = append(f.ranges, byteRange)
	content, etag, serve := f.content, f.etag, f.serve[byteRange]
	f.mu.Unlock()
	if serve != nil {
		serve(w, r)
		return
	}
	if etag != "" {
		w.Header().Set("Etag", etag)
	}
	w.Header().Set("Content-Type", "text/plain")
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
}

// respond lets a handler respond to requests of a range; nil ends that.
func (f *slicedFile) respond(byteRange string, serve http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.serve = map[string]http.HandlerFunc{byteRange: serve}
}

// sliced serves a file in slices of ten bytes, with a cache at /cached and without at /direct.
func sliced(t *testing.T, f *slicedFile) *testClient {
	t.Helper()
	return serveConf(t, "proxy_cache_path DIR/cache keys_zone=z:1m;", strings.ReplaceAll(`slice 10;
		proxy_set_header Range $slice_range; proxy_cache_key $uri$slice_range; proxy_cache_valid 200 206 1h;
		add_header X-Cache $upstream_cache_status;
		location /cached { proxy_cache z; proxy_pass http://UP; }
		location /direct { proxy_pass http://UP; }`, "UP", serve(t, f.ServeHTTP)))
}

const sliceText = "0123456789abcdefghijABCDEFGHIJxyz"

// A file that changes between two slices cuts the response off, and the next one is whole: what is
// outdated is not kept.
func TestFileMayChangeBetweenSlices(t *testing.T) {
	for _, change := range [][2]string{{strings.ToUpper(sliceText), `"2"`}, {sliceText + "more", `"1"`}} {
		f := &slicedFile{content: sliceText, etag: `"1"`}
		a := sliced(t, f)
		a.get("/cached", "Range", "bytes=0-1")
		f.mu.Lock()
		f.content, f.etag = change[0], change[1]
		f.mu.Unlock()
		if got, err := a.attempt("GET", "/cached", nil); err == nil || got.body != sliceText[:10] {
			t.Errorf("%q, %v, want the first slice and an error", got.body, err)
		}
		a.get("/cached").is(t, 200, change[0])
		a.get("/cached", "Range", "bytes=0-1")
	}
}

// A slice that is no slice, or that ends early, cuts the response off, or is an error of the upstream
// if it is the first one. It is not cached.
func TestInvalidSlicesEndTheResponse(t *testing.T) {
	for name, serve := range map[string]http.HandlerFunc{
		"whole":       func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, sliceText) },
		"an error":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"other bytes": rangeOf("bytes 0-9/33", 10),
		"too long":    rangeOf("bytes 10-29/33", 20),
		"no length":   rangeOf("bytes 10-19/*", 10),
		"no range":    rangeOf("", 10),
		"rubbish":     rangeOf("bytes x-y/z", 10),
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 10-19/33")
			w.Header().Set("Content-Length", "10")
			w.WriteHeader(http.StatusPartialContent)
			io.WriteString(w, "abc")
			panic(http.ErrAbortHandler)
		},
		"redirected": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Accel-Redirect", "/direct")
			rangeOf("bytes 10-19/33", 10)(w, nil)
		},
		"first": rangeOf("bytes 5-14/33", 10),
	} {
		f, byteRange := &slicedFile{content: sliceText}, "bytes=10-19"
		if name == "first" {
			byteRange = "bytes=0-9"
		}
		f.respond(byteRange, serve)
		a := sliced(t, f)
		for _, path := range []string{"/direct", "/cached"} {
			got, err := a.attempt("GET", path, nil)
			if name == "first" {
				got.is(t, http.StatusBadGateway)
			} else if err == nil || !strings.HasPrefix(sliceText, got.body[:10]) || len(got.body) > 13 {
				t.Errorf("%s at %s: %q, %v, want the first slice and an error", name, path, got.body, err)
			}
		}
		f.respond(byteRange, nil)
		a.get("/cached").is(t, 200, sliceText)
	}
}

// A slice with fewer or more bytes than its Content-Range is not kept. In chunks this shows when it
// is read, which may be for the next client.
func TestSliceOfAnotherLengthIsNotKept(t *testing.T) {
	for name, serve := range map[string]http.HandlerFunc{
		"short": rangeOf("bytes 10-19/33", 3), "short in chunks": inChunks(rangeOf("bytes 10-19/33", 3)),
		"long": rangeOf("bytes 10-19/33", 30), "long in chunks": inChunks(rangeOf("bytes 10-19/33", 30)),
	} {
		for _, fields := range [][]string{nil, {"Range", "bytes=18-19"}} {
			f := &slicedFile{content: sliceText}
			f.respond("bytes=10-19", serve)
			a := sliced(t, f)
			got, err := a.attempt("GET", "/cached", nil, fields...)
			if isLate := name == "long in chunks"; isLate != (err == nil && got.status < 500) {
				t.Errorf("%s, %s: %d %q, %v", name, fields, got.status, got.body, err)
			}
			f.respond("", nil)
			if name == "long in chunks" { // responses are cut off until the slice has ended, and is dropped
				testkit.WaitFor(t, "a whole response", func() bool {
					_, err := a.attempt("GET", "/cached", nil)
					return err == nil
				})
			}
			a.get("/cached").is(t, 200, sliceText)
		}
	}
}

// inChunks makes a response chunked.
func inChunks(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Transfer-Encoding", "chunked")
		serve(w, r)
	}
}

// A sliced response that bypasses the cache binds its client to a server, as others do.
func TestSlicedResponseBindsItsClient(t *testing.T) {
	a := serveConf(t, "proxy_cache_path DIR/cache keys_zone=z:1m; upstream servers { sticky cookie srv; server "+
		serve(t, (&slicedFile{content: sliceText}).ServeHTTP)+"; }", `slice 10; proxy_set_header Range $slice_range;
		proxy_cache_key $uri$slice_range; proxy_cache_bypass 1; proxy_no_cache 1;
		location / { proxy_pass http://servers; } location /cached { proxy_cache z; proxy_pass http://servers; }`)
	for _, path := range []string{"/", "/cached"} {
		got := a.get(path)
		got.is(t, 200, sliceText)
		testkit.Matches(t, got.header.Get("Set-Cookie"), "^srv=", path)
	}
}

// rangeOf responds with a Content-Range and so many bytes.
func rangeOf(bounds string, n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if bounds != "" {
			w.Header().Set("Content-Range", bounds)
		}
		w.WriteHeader(http.StatusPartialContent)
		io.WriteString(w, strings.Repeat("x", n))
	}
}

func TestLeavingClientEndsSlices(t *testing.T) {
	const size = 64 << 10
	text := strings.Repeat("0123456789abcdef", 64<<20/16)
	f := &slicedFile{content: text}
	a := serveConf(t, "", fmt.Sprintf("slice %d; proxy_set_header Range $slice_range; %s", size,
		passTo(serve(t, f.ServeHTTP))))
	resp := testkit.Value(a.client.Get("http://front.test/"))(t)
	testkit.Value(io.CopyN(io.Discard, resp.Body, 3*size))(t)
	resp.Body.Close()
	count := func() int { f.mu.Lock(); defer f.mu.Unlock(); return len(f.ranges) }
	for n, late := -1, time.Now().Add(maxWait); n != count(); time.Sleep(100 * time.Millisecond) {
		if n = count(); n == len(text)/size || time.Now().After(late) {
			t.Fatalf("%d slices were fetched", n)
		}
	}
}

// mirrored serves /, mirrored to /copy, with handlers for both.
func mirrored(t testing.TB, directives string, main, mirror http.HandlerFunc) (*testClient, *front.Handler) {
	t.Helper()
	h := confFront(t, "", directives+`
		location / { mirror /copy; proxy_set_header Host $http_host; proxy_pass http://app; }
		location /copy { internal; proxy_set_header X-Request $request_id; proxy_pass http://mirror/of$request_uri; }`,
		handlers{"app": main, "mirror": mirror})
	return serveHandler(t, h), h
}

// A mirror receives the method, the query, the fields and, unless the Config excludes it, the body.
func TestMirrorReceivesACopy(t *testing.T) {
	for sent, n := range map[string]int{"on": 1, "off": 0} {
		for _, body := range []string{"", "short", strings.Repeat("0123456789", 10_000)} {
			copies := make(chan string, 1)
			a, _ := mirrored(t, "mirror_request_body "+sent+";", func(w http.ResponseWriter, r *http.Request) {
				b, err := io.ReadAll(r.Body)
				fmt.Fprint(w, string(b) == body, err)
				r.Header.Set("X-Field", "changed") // a handler may change its request
			}, func(_ http.ResponseWriter, r *http.Request) {
				b, err := io.ReadAll(r.Body)
				copies <- fmt.Sprint(r.Method, " ", r.RequestURI, " ", r.Header.Get("X-Field"), r.Header["Content-Length"],
					r.ContentLength, " ", len(b), err)
			})
			a.do("POST", "/a?b=c", strings.NewReader(body), "X-Field", "field").is(t, 200, "true <nil>")
			want := fmt.Sprintf("POST /of/a?b=c field[] %d %[1]d <nil>", n*len(body))
			testkit.Equal(t, testkit.Receive(t, copies), want, "copy")
		}
	}
}

// The client waits neither for a mirror that hangs, nor for one that panics, and closing the
// handler ends both.
func TestMirrorDelaysNothing(t *testing.T) {
	started, ended := make(chan string, 1), make(chan string, 1)
	a, h := mirrored(t, "", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") },
		func(_ http.ResponseWriter, r *http.Request) {
			started <- r.RequestURI
			if r.RequestURI == "/of/panic" {
				panic("mirror")
			}
			<-r.Context().Done()
			ended <- "ended"
		})
	for _, path := range []string{"/panic", "/hang"} {
		a.get(path).is(t, 200, "ok")
		testkit.Equal(t, testkit.Receive(t, started), "/of"+path)
	}
	testkit.Must(t, h.Close())
	testkit.Receive(t, ended)
}

// Copies beyond the limit are lost, and the requests are not.
func TestMirrorsAreBounded(t *testing.T) {
	const most = 512
	started, release := make(chan string, most+1), make(chan struct{})
	a, h := mirrored(t, "", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") },
		func(http.ResponseWriter, *http.Request) {
			started <- "started"
			<-release
		})
	for range most + 5 {
		a.get("/").is(t, 200, "ok")
	}
	for range most {
		testkit.Receive(t, started)
	}
	close(release)
	testkit.Must(t, h.Close())
	testkit.Equal(t, len(started), 0, "copies beyond the limit")
}

// Each mirror receives a copy, and two of the same path receive two, as from nginx.
func TestSeveralMirrors(t *testing.T) {
	testkit.Long(t, "it compares with nginx")
	copies := make(chan string, 10)
	to := serve(t, func(_ http.ResponseWriter, r *http.Request) { copies <- r.URL.Path })
	theirs, ours := besideNginx(t, "", strings.ReplaceAll(`
		location / { mirror /a; mirror /b; mirror /b; proxy_pass http://UP/main; }
		location /a { internal; proxy_pass http://UP/a; } location /b { internal; proxy_pass http://UP/b; }`, "UP", to))
	for _, a := range []*testClient{theirs, ours} {
		a.get("/")
		var all []string
		for range 4 {
			all = append(all, testkit.Receive(t, copies))
		}
		slices.Sort(all)
		testkit.Equal(t, strings.Join(all, " "), "/a /b /b /main")
	}
}
