package files_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/tarehq/tare/front/internal/files"
	"github.com/tarehq/tare/internal/testkit"
)

// The handler and http.FileServer behave alike, as far as both support a feature.
func TestResponsesAreThoseOfFileServer(t *testing.T) {
	s := newSite(t)
	s.write("index.html", "<h1>home</h1>")
	s.write("a/index.html", "<h1>a</h1>")
	s.write("plain.txt", "0123456789abcdefghijklmnopqrstuvwxyz")
	s.write("empty.css", "")
	s.write("with space & ünïcode.txt", "odd")
	s.write("unknown", "\x89PNG\x0d\x0a\x1a\x0a")
	s.write("script.js", "x()")
	s.write("large.bin", large(1, 700_000))
	s.must(os.Mkdir(s.path("bare"), 0o755))
	s.must(os.Mkdir(s.path("a/bare"), 0o755))
	theirs := httptest.NewServer(http.FileServer(http.Dir(s.dir)))
	t.Cleanup(theirs.Close)
	reference := host{name: "http.FileServer", url: theirs.URL, client: &http.Client{
		Transport: &http.Transport{DisableCompression: true}, CheckRedirect: stay,
	}}
	type request struct {
		method, path string
		fields       []string
	}
	requests := []request{
		{"GET", "/", nil}, {"HEAD", "/", nil}, {"GET", "/?query=1", nil},
		{"GET", "/a/", nil}, {"GET", "/a", nil}, {"GET", "/a?x=y", nil}, {"GET", "//a//", nil}, {"GET", "/./a/./", nil},
		{"GET", "/plain.txt", nil}, {"HEAD", "/plain.txt", nil}, {"GET", "/plain%2etxt", nil},
		{"GET", "/plain.txt/", nil}, {"GET", "/plain.txt/?q", nil},
		{"GET", "/empty.css", nil}, {"HEAD", "/empty.css", nil}, {"GET", "/empty.css", []string{"Range: bytes=0-1"}},
		{"GET", escape("/with space & ünïcode.txt"), nil}, {"GET", "/unknown", nil}, {"GET", "/script.js", nil},
		{"GET", "/none", nil}, {"GET", "/none/", nil}, {"HEAD", "/none", nil}, {"GET", "/plain.txt/more", nil},
		{"GET", "/large.bin", nil}, {"HEAD", "/large.bin", nil},
		{"GET", "/large.bin", []string{"Range: bytes=5-"}}, {"GET", "/large.bin", []string{"Range: bytes=699990-"}},
		{"GET", "/large.bin", []string{"Range: bytes=300000-300000"}},
		{"GET", "/plain.txt", []string{"Range: bytes=0-0"}}, {"GET", "/plain.txt", []string{"Range: bytes=3-8"}},
		{"GET", "/plain.txt", []string{"Range: bytes=30-99"}}, {"GET", "/plain.txt", []string{"Range: bytes=-3"}},
		{"GET", "/plain.txt", []string{"Range: bytes=-99"}}, {"GET", "/plain.txt", []string{"Range: bytes=36-"}},
		{"GET", "/plain.txt", []string{"Range: bytes=9-3"}}, {"GET", "/plain.txt", []string{"Range: bytes=x-3"}},
		{"GET", "/plain.txt", []string{"Range: bytes=0-3,70-80"}},
		{"GET", "/plain.txt", []string{"If-Modified-Since: Mon, 03 Feb 2020 04:05:06 GMT"}},
		{"GET", "/plain.txt", []string{"If-Modified-Since: Mon, 03 Feb 2020 04:05:05 GMT"}},
		{"GET", "/plain.txt", []string{"If-Modified-Since: nonsense"}},
		{"GET", "/plain.txt", []string{"If-Unmodified-Since: Mon, 03 Feb 2020 04:05:05 GMT"}},
		{"GET", "/plain.txt", []string{"If-Unmodified-Since: Mon, 03 Feb 2020 04:05:06 GMT"}},
		{"GET", "/plain.txt", []string{"If-None-Match: *"}}, {"GET", "/plain.txt", []string{`If-None-Match: "other"`}},
		{"GET", "/plain.txt", []string{`If-Match: "other"`}},
		{"GET", "/plain.txt", []string{"Range: bytes=1-2", "If-Range: Mon, 03 Feb 2020 04:05:06 GMT"}},
		{"GET", "/plain.txt", []string{"Range: bytes=1-2", "If-Range: Mon, 03 Feb 2020 04:05:05 GMT"}},
		{"GET", "/plain.txt", []string{"Range: bytes=1-2", `If-Range: "other"`}},
		{"GET", "/plain.txt", []string{"Range: bytes=1-2", "If-Modified-Since: Mon, 03 Feb 2020 04:05:06 GMT"}},
	}
	if !testkit.NetHTTPPrecedes("go1.27") {
		requests = append(requests, request{"GET", "/a%2findex.html/", nil}, request{"GET", "/a%2Fbare", nil})
	}
	onEach(t, s.handler(files.Config{}), func(t *testing.T, ours host) {
		for range 2 { // the second responses come from memory
			for _, r := range requests {
				want, got := reference.request(t, r.method, r.path, r.fields...),
					ours.request(t, r.method, r.path, r.fields...)
				what := r.method + " " + r.path
				if got.status != want.status {
					t.Errorf("%s %q: status %d, want %d", what, r.fields, got.status, want.status)
					continue
				}
				if want.status < 300 || want.status == http.StatusNotFound {
					if got.body != want.body {
						t.Errorf("%s %q: %d bytes %.40q, want %d %.40q", what, r.fields, len(got.body), got.body,
							len(want.body), want.body)
					}
					for _, name := range []string{"Content-Type", "Content-Length", "Last-Modified", "Accept-Ranges"} {
						if got.header.Get(name) != want.header.Get(name) {
							t.Errorf("%s %q: %s is %q, want %q", what, r.fields, name, got.header.Get(name),
								want.header.Get(name))
						}
					}
				}
				for _, name := range []string{"Content-Range", "Location"} {
					if want.status == http.StatusRequestedRangeNotSatisfiable {
						// http.FileServer sends the length only if the ranges are well-formed
						continue
					}
					if got.header.Get(name) != want.header.Get(name) {
						t.Errorf("%s %q: %s is %q, want %q", what, r.fields, name, got.header.Get(name),
							want.header.Get(name))
					}
				}
			}
		}
	})
}
