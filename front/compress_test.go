package front_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// decoded returns the body of a response without its coding.
func decoded(t testing.TB, coding string, body io.Reader) io.Reader {
	t.Helper()
	switch coding {
	case "br":
		return brotli.NewReader(body)
	case "zstd":
		r := testkit.Value(zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true)))(t)
		t.Cleanup(r.Close)
		return r
	case "gzip":
		return testkit.Value(gzip.NewReader(body))(t)
	}
	return body
}

// A client gets the coding that it accepts; br comes before zstd, and that before gzip.
func TestCodingsAreNegotiated(t *testing.T) {
	page := strings.Repeat("compress me ", 10_000)
	on := &conf.Compression{Vary: true}
	settings := conf.Settings{Brotli: on, Zstd: on, Gzip: &conf.Gzip{Vary: true}}
	a := frontOf(t, settings, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Etag", `"a"`)
		n := len(page)
		if r.URL.RawQuery != "" {
			_, _ = fmt.Sscan(r.URL.RawQuery, &n)
			w.Header().Set("Content-Length", fmt.Sprint(n))
		}
		for i := 0; i < n; i += 5000 {
			io.WriteString(w, page[i:min(i+5000, n)])
		}
	})
	for accept, want := range map[string]string{
		"": "", "br": "br", "zstd": "zstd", "gzip": "gzip", "gzip, zstd": "zstd", "gzip, deflate, br, zstd": "br",
		"br;q=0, zstd": "zstd", "BR": "br", "*": "", "identity": "",
	} {
		for _, path := range []string{"/", "/?1000"} {
			got := a.get(path, "Accept-Encoding", accept)
			coding := got.header.Get("Content-Encoding")
			testkit.Fields(t, got.header, accept, "Content-Encoding", want, "Vary", "Accept-Encoding")
			testkit.Equal(t, strings.HasPrefix(got.header.Get("Etag"), "W/"), want != "", accept, "weak entity tag")
			body := testkit.Value(io.ReadAll(decoded(t, coding, strings.NewReader(got.body))))(t)
			testkit.Equal(t, string(body), map[string]string{"/": page, "/?1000": page[:1000]}[path], accept)
		}
	}
	short := a.get("/?19", "Accept-Encoding", "br, zstd, gzip")
	testkit.Equal(t, short.header.Get("Content-Encoding"), "", "a short body")
	testkit.Equal(t, a.do("HEAD", "/", nil, "Accept-Encoding", "br").header.Get("Content-Encoding"), "br", "HEAD")
}

// $gzip_ratio is the ratio of the handler's bytes to those sent.
func TestGzipRatioIsLogged(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	app := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, strings.Repeat("compress me ", 250))
	}
	h := confFront(t, `log_format ratio "$body_bytes_sent $gzip_ratio";`,
		"gzip on; gzip_types text/plain; access_log "+name+" ratio; "+passTo("app"), handlers{"app": app})
	for _, coding := range []string{"gzip", ""} {
		get(t, h, "/", "Accept-Encoding", coding)
	}
	lines := awaitLines(t, name, 2)
	var sent int
	var ratio float64
	if n, err := fmt.Sscanf(lines[0], "%d %f", &sent, &ratio); n != 2 || err != nil || sent == 0 ||
		math.Abs(ratio-3000/float64(sent)) > 0.00501 || len(lines[0])-strings.IndexByte(lines[0], '.') != len(".00\n") {
		t.Errorf("%q", lines[0])
	}
	testkit.Equal(t, lines[1], "3000 -")
}

// newRecorder returns a server's writer in memory, whose Code is 0 until there is a status.
func newRecorder() *httptest.ResponseRecorder {
	return &httptest.ResponseRecorder{HeaderMap: make(http.Header), Body: new(bytes.Buffer)}
}

// Beyond maxCompressing responses are sent uncompressed. Compressors of panicked handlers are
// released.
func TestConcurrentGzipIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many, bound = 600, 512
		hold := make(chan bool)
		c := oneHost(app(conf.Settings{Gzip: &conf.Gzip{}}))
		h := inFakeTime(t, c, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, strings.Repeat("x", 1000))
			<-hold
			panic(http.ErrAbortHandler)
		})
		for range 2 {
			var all []*httptest.ResponseRecorder
			for range many {
				w, r := newRecorder(), httptest.NewRequest("GET", "http://front.test/", nil)
				r.Header.Set("Accept-Encoding", "gzip")
				all = append(all, w)
				go func() {
					defer func() { _ = recover() }()
					h.ServeHTTP(w, r)
				}()
			}
			synctest.Wait()
			n := 0
			for _, w := range all {
				if w.Header().Get("Content-Encoding") == "gzip" {
					n++
				}
			}
			testkit.Equal(t, n, bound, "compressed responses")
			for range many {
				hold <- true
			}
			synctest.Wait()
		}
		testkit.Check(t, h.Close())
	})
}

func gzipped(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	testkit.Send(t, w, text)
	testkit.Must(t, w.Close())
	return b.Bytes()
}

// gunzipping serves what write writes as a body with gzip.
func gunzipping(t testing.TB, write func(w io.Writer)) *testClient {
	t.Helper()
	return frontOf(t, conf.Settings{Gunzip: &conf.Gzip{Vary: true}}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Etag", `"a"`)
		w.Header().Set("Content-Type", "text/plain")
		write(w)
	})
}

// The pieces in which a body arrives do not matter, whether they are flushed or not. A handler may lock
// its goroutine to a thread between them: what decompresses does not depend on that.
func TestGunzipAcceptsAnyPieces(t *testing.T) {
	text := strings.Repeat("some text, ", 50) + "and more"
	var pieces [][]byte
	a := gunzipping(t, func(w io.Writer) {
		for i, piece := range pieces {
			if i == len(pieces)-1 { // of one piece, before the first
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
			}
			w.Write(piece)
			if i%2 == 1 {
				w.(http.Flusher).Flush()
			}
		}
	})
	testkit.Equal(t, testkit.EverySplit(t, gzipped(t, text), func(p [][]byte) string {
		pieces = p
		return a.get("/").body
	}), text)
}

// A response that is cut off or not gzip at all is aborted, so that the client sees it.
func TestInvalidGzipIsAborted(t *testing.T) {
	packed := gzipped(t, strings.Repeat("some text, ", 20_000))
	for name, body := range map[string][]byte{
		"cut off": packed[:len(packed)/2], "no gzip": []byte("text"), "empty": nil,
		"damaged": append(bytes.Clone(packed[:len(packed)-8]), "12345678"...),
	} {
		testkit.Fails(gunzipping(t, func(w io.Writer) { w.Write(body) }).attempt("GET", "/", nil))(t, "", name)
	}
}

// A response that a handler abandons leaves nothing behind, and nothing more of it is sent.
func TestGunzipOfAbandonedResponses(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("responses", func(t *testing.T) {
		packed := gzipped(t, strings.Repeat("some text, ", 20_000))
		a := gunzipping(t, func(w io.Writer) {
			w.Write(packed[:len(packed)/2])
			panic(http.ErrAbortHandler)
		})
		for range 50 {
			testkit.Fails(a.attempt("GET", "/", nil))(t, "")
		}
	})
	testkit.WaitFor(t, "the end of goroutines", func() bool { return runtime.NumGoroutine() <= before+20 })
}

// A file that exists only compressed is served to clients that accept it, and with always to all.
// gunzip decompresses it for the others.
func TestPrecompressedFileNeedsNoOther(t *testing.T) {
	dir := site(t, "a.txt", "b.txt.gz.br")
	packed := string(gzipped(t, "packed"))
	for _, name := range []string{"a.txt.gz", "b.txt.gz"} {
		testkit.WriteFile(t, filepath.Join(dir, name), packed)
	}
	a := serveConf(t, "", strings.ReplaceAll(`location /on/ { gzip_static on; brotli_static on; alias SITE/; }
		location /always/ { gzip_static always; alias SITE/; }
		location /gunzip/ { gzip_static always; gunzip on; alias SITE/; }`, "SITE", dir))
	for _, test := range []struct {
		path, accepted string
		status         int
		body, coding   string
	}{
		{"/on/b.txt", "gzip", 200, packed, "gzip"}, {"/on/b.txt", "br, gzip;q=0.5", 200, packed, "gzip"},
		{"/on/b.txt", "br", 404, "", ""}, {"/on/b.txt", "", 404, "", ""}, {"/on/c.txt", "gzip", 404, "", ""},
		{"/always/a.txt", "", 200, packed, "gzip"}, {"/always/b.txt", "", 200, packed, "gzip"},
		{"/gunzip/b.txt", "", 200, "packed", ""}, {"/gunzip/b.txt", "gzip", 200, packed, "gzip"},
		{"/gunzip/c.txt", "gzip", 404, "", ""},
	} {
		got := a.get(test.path, "Accept-Encoding", test.accepted)
		if got.status != test.status || got.header.Get("Content-Encoding") != test.coding ||
			test.status == 200 && (got.body != test.body || len(got.header["Vary"]) > 1) {
			t.Errorf("%v, want %d %q", got, test.status, test.body)
		}
		if test.path == "/on/b.txt" { // a cache may have clients without gzip
			testkit.Fields(t, got.header, test.path, "Vary", "Accept-Encoding")
		}
		if test.coding == "" || strings.HasPrefix(test.path, "/gunzip") {
			continue
		}
		line := "\r\nContent-Type: " + got.header.Get("Content-Type") + "\r\n"
		got = a.get(test.path, "Accept-Encoding", test.accepted, "Range", "bytes=0-0,2-2")
		got.is(t, 206)
		testkit.Equal(t, strings.Count(got.body, line), 2, test.path, "parts of the file's type")
	}
}
