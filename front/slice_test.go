package front_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// slicedFile is a file behind an upstream that responds in ranges.
type slicedFile struct {
	mu      sync.Mutex
	content string
	etag    string
	ranges  []string                                          // of the requests
	serve   func(w http.ResponseWriter, r *http.Request) bool // nil, or it may respond itself
}

func (f *slicedFile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.ranges = append(f.ranges, r.Header.Get("Range"))
	content, etag, serve := f.content, f.etag, f.serve
	f.mu.Unlock()
	if serve != nil && serve(w, r) {
		return
	}
	if etag != "" {
		w.Header().Set("Etag", etag)
	}
	w.Header().Set("Content-Type", "text/plain")
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
}

func (f *slicedFile) set(content, etag string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.content, f.etag = content, etag
}

// serveSecond lets serve respond to requests of the second slice; nil ends that.
func (f *slicedFile) serveSecond(serve http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.serve = func(w http.ResponseWriter, r *http.Request) bool {
		isSecond := serve != nil && r.Header.Get("Range") == "bytes=10-19"
		if isSecond {
			serve(w, r)
		}
		return isSecond
	}
}

// sliced serves a file in slices of ten bytes, with a cache at /cached and without at /direct.
func sliced(t *testing.T, f *slicedFile, more string) *testClient {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return serveConf(t, "proxy_cache_path DIR/cache keys_zone=z:1m;", fmt.Sprintf(`slice 10; %s
		proxy_set_header Range $slice_range; proxy_cache_key $uri$slice_range; proxy_cache_valid 200 206 1h;
		add_header X-Cache $upstream_cache_status;
		location /cached { proxy_cache z; proxy_pass %s; }
		location /direct { proxy_pass %s; }
		location /unkeyed { proxy_cache z; proxy_cache_key $uri; proxy_pass %s; }`, more, s.URL, s.URL, s.URL))
}

const sliceText = "0123456789abcdefghijABCDEFGHIJxyz"

// A file that changes between two slices cuts the response off, and the next one is whole: what is
// outdated is not kept.
func TestFileMayChangeBetweenSlices(t *testing.T) {
	for _, change := range [][2]string{{strings.ToUpper(sliceText), `"2"`}, {sliceText + "more", `"1"`}} {
		f := &slicedFile{content: sliceText, etag: `"1"`}
		a := sliced(t, f, "")
		a.get("/cached", "Range", "bytes=0-1")
		f.set(change[0], change[1])
		if body, err := a.read("/cached"); err == nil || body != sliceText[:10] {
			t.Errorf("%q, %v, want the first slice and an error", body, err)
		}
		testkit.Equal(t, testkit.Value(a.read("/cached"))(t), change[0], "the second response")
		a.get("/cached", "Range", "bytes=0-1")
	}
}

// read sends a request, and returns what arrives of the body.
func (a *testClient) read(path string) (string, error) {
	got, err := a.attempt("GET", path, nil)
	return got.body, err
}

// A slice that is no slice, or that ends early, cuts the response off. It is not cached.
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
	} {
		f := &slicedFile{content: sliceText}
		f.serveSecond(serve)
		a := sliced(t, f, "")
		for _, path := range []string{"/direct", "/cached"} {
			body, err := a.read(path)
			if err == nil || !strings.HasPrefix(sliceText, body[:10]) || len(body) > 13 {
				t.Errorf("%s at %s: %q, %v, want the first slice and an error", name, path, body, err)
			}
		}
		f.serveSecond(nil)
		testkit.Equal(t, testkit.Value(a.read("/cached"))(t), sliceText, name, "repaired")
	}
}

// A slice with fewer or more bytes than its Content-Range is not kept. In chunks this shows when it
// is read, which may be for the next client.
func TestSliceOfAnotherLengthIsNotKept(t *testing.T) {
	for name, serve := range map[string]http.HandlerFunc{
		"short": rangeOf("bytes 10-19/33", 3), "short in chunks": inChunks(rangeOf("bytes 10-19/33", 3)),
		"long": rangeOf("bytes 10-19/33", 30), "long in chunks": inChunks(rangeOf("bytes 10-19/33", 30)),
	} {
		for _, first := range []string{"", "bytes=18-19"} {
			f := &slicedFile{content: sliceText}
			f.serveSecond(serve)
			a := sliced(t, f, "")
			var fields []string
			if first != "" {
				fields = []string{"Range", first}
			}
			got, err := a.attempt("GET", "/cached", nil, fields...)
			if isLate := name == "long in chunks"; isLate != (err == nil && got.status < 500) {
				t.Errorf("%s, %s: %d %q, %v", name, first, got.status, got.body, err)
			}
			f.serveSecond(nil)
			if name == "long in chunks" { // responses are cut off until the slice has ended, and is dropped
				testkit.WaitFor(t, "a whole response", func() bool {
					_, err := a.read("/cached")
					return err == nil
				})
			}
			testkit.Equal(t, testkit.Value(a.read("/cached"))(t), sliceText, name, first, "repaired")
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
	s := httptest.NewServer(&slicedFile{content: sliceText})
	t.Cleanup(s.Close)
	a := serveConf(t, fmt.Sprintf(`proxy_cache_path DIR/cache keys_zone=z:1m;
		upstream servers { server %s; sticky cookie srv; }`, strings.TrimPrefix(s.URL, "http://")),
		`slice 10; proxy_set_header Range $slice_range; proxy_cache_key $uri$slice_range; proxy_cache_bypass 1;
		proxy_no_cache 1; location / { proxy_pass http://servers; } location /cached { proxy_cache z;
		proxy_pass http://servers; }`)
	for _, path := range []string{"/", "/cached"} {
		got := a.get(path)
		if got.body != sliceText || !strings.HasPrefix(got.header.Get("Set-Cookie"), "srv=") {
			t.Errorf("%s: %q, %v", path, got.body, got.header)
		}
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

// A first response with a range other than the slice's is an error of the upstream. It reaches
// neither client nor cache.
func TestFirstSliceIsChecked(t *testing.T) {
	f := &slicedFile{content: sliceText}
	f.serve = func(w http.ResponseWriter, r *http.Request) bool {
		rangeOf("bytes 5-14/33", 10)(w, r)
		return true
	}
	a := sliced(t, f, "")
	for _, path := range []string{"/direct", "/cached", "/cached"} {
		a.get(path).is(t, http.StatusBadGateway)
	}
	f.serveSecond(nil)
	a.get("/cached").is(t, 200, sliceText)
}

func TestLeavingClientEndsSlices(t *testing.T) {
	const size = 64 << 10
	text := strings.Repeat("0123456789abcdef", 64<<20/16)
	f := &slicedFile{content: text}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	a := serveConf(t, "", fmt.Sprintf(`slice %d; proxy_set_header Range $slice_range; location / { proxy_pass %s; }`,
		size, s.URL))
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
