package files_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/internal/files"
	"github.com/tarehq/tare/internal/testkit"
)

// The handler and http.FileServer behave alike, as far as both support a feature.
func TestResponsesAreThoseOfFileServer(t *testing.T) {
	testkit.Long(t, "it compares many responses")
	s := newSite(t, "index.html", "<h1>home</h1>", "a/index.html", "<h1>a</h1>",
		"plain.txt", "0123456789abcdefghijklmnopqrstuvwxyz", "empty.css", "", "with space & ünïcode.txt", "odd",
		"unknown", "\x89PNG\x0d\x0a\x1a\x0a", "script.js", "x()", "large.bin", large(1, 300_000))
	s.must(os.Mkdir(s.path("bare"), 0o755))
	s.must(os.Mkdir(s.path("a/bare"), 0o755))
	// With an entity tag in the header, http.FileServer evaluates the conditions about it.
	theirs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tag := r.Header.Get("X-Etag"); tag != "" {
			w.Header().Set("Etag", tag)
		}
		http.FileServer(http.Dir(s.dir)).ServeHTTP(w, r)
	}))
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
		{"GET", "/large.bin", []string{"Range: bytes=5-"}}, {"GET", "/large.bin", []string{"Range: bytes=299990-"}},
		{"GET", "/large.bin", []string{"Range: bytes=200000-200000"}},
		{"GET", "/plain.txt", []string{"Range: bytes=0-0"}}, {"GET", "/plain.txt", []string{"Range: bytes=3-8"}},
		{"GET", "/plain.txt", []string{"Range: bytes=30-99"}}, {"GET", "/plain.txt", []string{"Range: bytes=-3"}},
		{"GET", "/plain.txt", []string{"Range: bytes=-99"}}, {"GET", "/plain.txt", []string{"Range: bytes=36-"}},
		{"GET", "/plain.txt", []string{"Range: bytes=9-3"}}, {"GET", "/plain.txt", []string{"Range: bytes=x-3"}},
		{"GET", "/plain.txt", []string{"Range: bytes=0-3,70-80"}},
	}
	const same, before = "Mon, 03 Feb 2020 04:05:06 GMT", "Mon, 03 Feb 2020 04:05:05 GMT"
	for _, path := range []string{"/plain.txt", "/large.bin"} {
		for _, conditions := range []string{
			"If-None-Match: TAG", "If-None-Match: W/TAG", `If-None-Match: "a", TAG, "b"`, `If-None-Match: "a"`,
			`If-None-Match: "a`, "If-None-Match: *", `If-None-Match: "a"|If-Modified-Since: ` + same,
			"If-None-Match: TAG|If-Modified-Since: " + before, "If-Match: TAG", "If-Match: W/TAG", "If-Match: *",
			`If-Match: "a"`, "If-Match: TAG|If-Unmodified-Since: " + before, `If-Match: "a"|If-None-Match: TAG`,
			"If-Match: TAG|If-None-Match: TAG", "If-Unmodified-Since: " + before, "If-Unmodified-Since: " + same,
			"If-Modified-Since: " + same, "If-Modified-Since: " + before, "If-Modified-Since: nonsense",
			"Range: bytes=1-2|If-Range: TAG", "Range: bytes=1-2|If-Range: W/TAG", `Range: bytes=1-2|If-Range: "a"`,
			"Range: bytes=1-2|If-Range: " + same, "Range: bytes=1-2|If-Range: " + before,
			"Range: bytes=1-2|If-Range: nonsense", "Range: bytes=1-2|If-None-Match: TAG",
			`Range: bytes=1-2|If-Match: "a"`, "Range: bytes=1-2|If-Modified-Since: " + same, "Range: bytes=200000-",
		} {
			requests = append(requests, request{"GET", path, strings.Split(conditions, "|")})
			if !strings.Contains(conditions, "Range") { // ranges are defined for GET only
				requests = append(requests, request{"HEAD", path, strings.Split(conditions, "|")})
			}
		}
	}
	if !testkit.NetHTTPPrecedes("go1.27") {
		requests = append(requests, request{"GET", "/a%2findex.html/", nil}, request{"GET", "/a%2Fbare", nil})
	}
	onEach(t, s.handler(files.Config{CacheControl: "max-age=60"}), func(t *testing.T, ours host) {
		tag := ours.request(t, "HEAD", "/plain.txt").header.Get("Etag")
		got := ours.request(t, "GET", "/plain.txt", `If-None-Match: "a"`, "If-None-Match: "+tag)
		testkit.Equal(t, got.status, 304, "two lines of If-None-Match, of which net/http reads the first")
		for range 2 { // the second responses come from memory
			for _, r := range requests {
				var fields []string
				tag := "none"
				if len(r.fields) > 0 {
					tag = ours.request(t, "HEAD", r.path).header.Get("Etag")
				}
				for _, f := range r.fields {
					fields = append(fields, strings.ReplaceAll(f, "TAG", tag))
				}
				want, got := reference.request(t, r.method, r.path, append(fields, "X-Etag: "+tag)...),
					ours.request(t, r.method, r.path, fields...)
				what := r.method + " " + r.path
				if got.status != want.status {
					t.Errorf("%s %q: status %d, want %d", what, r.fields, got.status, want.status)
					continue
				}
				if want.status < 300 || want.status == http.StatusNotFound {
					testkit.Equal(t, got.body, want.body, what, r.fields)
					for _, name := range []string{"Content-Type", "Content-Length", "Last-Modified", "Accept-Ranges"} {
						testkit.Equal(t, got.header.Get(name), want.header.Get(name), what, r.fields, name)
					}
				}
				if got.status == 304 {
					testkit.Equal(t, got.body, "", what, r.fields)
					testkit.Fields(t, got.header, what, "Etag", tag, "Cache-Control", "max-age=60",
						"Content-Type", "")
				}
				for _, name := range []string{"Content-Range", "Location"} {
					if want.status == http.StatusRequestedRangeNotSatisfiable {
						// http.FileServer sends the length only if the ranges are well-formed
						continue
					}
					testkit.Equal(t, got.header.Get(name), want.header.Get(name), what, r.fields, name)
				}
			}
		}
	})
}
