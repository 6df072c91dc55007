package files_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/tarehq/tare/front/internal/files"
	"github.com/tarehq/tare/internal/testkit"
)

func TestManyRangesGetMultipart(t *testing.T) {
	s := newSite(t)
	content := map[string]string{"/small.txt": "0123456789abcdefghij", "/large.bin": large(3, 600_000)}
	for path, c := range content {
		s.write(path[1:], c)
	}
	onEach(t, s.handler(files.Config{}), func(t *testing.T, ours host) {
		for path, c := range content {
			got := ours.request(t, "GET", path, "Range: bytes=10-12, 0-1,-2")
			media, parameters, err := mime.ParseMediaType(got.header.Get("Content-Type"))
			if err != nil || media != "multipart/byteranges" || got.status != 206 {
				t.Fatalf("%s: %d %v", path, got.status, got.header)
			}
			testkit.Equal(t, got.header.Get("Content-Length"), strconv.Itoa(len(got.body)))
			var parts []string
			for reader := multipart.NewReader(strings.NewReader(got.body), parameters["boundary"]); ; {
				p, err := reader.NextPart()
				if err == io.EOF {
					break
				}
				testkit.Must(t, err)
				b, _ := io.ReadAll(p)
				parts = append(parts, p.Header.Get("Content-Range")+" "+string(b))
			}
			n := len(c)
			size := strconv.Itoa(n)
			want := []string{
				"bytes 10-12/" + size + " " + c[10:13], "bytes 0-1/" + size + " " + c[:2],
				"bytes " + strconv.Itoa(n-2) + "-" + strconv.Itoa(n-1) + "/" + size + " " + c[n-2:],
			}
			testkit.Equal(t, strings.Join(parts, "|"), strings.Join(want, "|"), path)
			// Too many ranges are ignored.
			for _, ranges := range []string{"0" + strings.Repeat(",5-5", 16), strings.Repeat(",0-", 2000)} {
				got := ours.request(t, "GET", path, "Range: bytes=0-"+ranges)
				testkit.Equal(t, got.status, 200, path, "with many ranges")
				testkit.Equal(t, got.body, c, path, "with many ranges")
			}
		}
	})
}

func TestOtherMethodsAreRejected(t *testing.T) {
	s := newSite(t, "x.txt", "x")
	onEach(t, s.handler(files.Config{Header: http.Header{"x-frame-options": {"DENY"}, "Link": {"<a>", "<b>"}}}),
		func(t *testing.T, ours host) {
			for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"} {
				got := ours.request(t, method, "/x.txt")
				testkit.Equal(t, got.status, 405, method)
				testkit.Fields(t, got.header, method, "Allow", "GET, HEAD")
			}
			for _, path := range []string{"/x.txt", "/x.txt", "/none", "/x.txt/"} {
				got := ours.request(t, "GET", path)
				testkit.Equal(t, got.header.Get("X-Frame-Options"), "DENY", path)
				testkit.Equal(t, strings.Join(got.header["Link"], " "), "<a> <b>", path)
			}
		})
}

// Middleware may change the header that it receives, and has fields of its own.
func TestMiddlewareMayChangeHeader(t *testing.T) {
	s := newSite(t, "x.html", strings.Repeat("<p>x", 1000), "short.html", "x")
	h := s.handler(files.Config{Header: http.Header{"Link": {"<a>"}}, Compress: files.Compress{Gzip: true}})
	around := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/x-special")
		w.Header().Set("Vary", "Origin")
		h.ServeHTTP(spoiler{w}, r)
	})
	onEach(t, around, func(t *testing.T, ours host) {
		for range 3 {
			got := ours.request(t, "GET", "/x.html")
			testkit.Equal(t, got.header["Vary"], []string{"Origin", "Accept-Encoding"})
			testkit.Fields(t, got.header, "", "Content-Type", "text/x-special", "Link", "spoiled, more",
				"X-Was", "<a>")
			testkit.Equal(t, ours.request(t, "GET", "/short.html").header["Vary"], []string{"Origin"})
		}
	})
}

// spoiler changes values in place, which is forbidden.
type spoiler struct{ http.ResponseWriter }

func (s spoiler) Write(p []byte) (int, error) {
	s.Header()["X-Was"] = []string{s.Header()["Link"][0]}
	s.Header()["Link"][0] = "spoiled"
	s.Header()["Link"] = append(s.Header()["Link"], "more")
	return s.ResponseWriter.Write(p)
}

func gunzip(t *testing.T, s string) string {
	t.Helper()
	r := testkit.Value(gzip.NewReader(strings.NewReader(s)))(t)
	return string(testkit.Value(io.ReadAll(r))(t))
}

func unzstd(t *testing.T, s string) string {
	t.Helper()
	r := testkit.Value(zstd.NewReader(strings.NewReader(s)))(t)
	defer r.Close()
	return string(testkit.Value(io.ReadAll(r))(t))
}

func TestFilesAreCompressedOnce(t *testing.T) {
	s := newSite(t)
	text, noise := strings.Repeat("the same again and again. ", 4000), large(4, 50_000)
	huge := strings.Repeat("line after line\n", 30_000) // not in memory, and yet compressed
	s.write("page.html", text)
	s.write("huge.txt", huge)
	s.write("noise.txt", noise)
	s.write("tiny.txt", "tiny")
	s.write("picture.png", text)
	onEach(t, s.handler(files.Config{Compress: files.Compress{Gzip: true, Zstd: true}}), func(t *testing.T, ours host) {
		plain := ours.request(t, "GET", "/page.html")
		testkit.Equal(t, plain.body, text)
		testkit.Fields(t, plain.header, "without Accept-Encoding", "Vary", "Accept-Encoding", "Content-Encoding", "")
		tags := map[string]bool{plain.header.Get("Etag"): true}
		for _, test := range []struct{ accept, want string }{
			{"gzip", "gzip"}, {"zstd", "zstd"}, {"gzip, zstd", "zstd"}, {"gzip;q=1, zstd;q=0.5", "gzip"}, {"*", "zstd"},
			{"*;q=0.1, gzip;q=0.2", "gzip"}, {"GZIP", "gzip"}, {"x-gzip", "gzip"}, {"br", ""}, {"gzip;q=0", ""},
			{"identity", ""},
			{"identity, gzip;q=0.5", ""}, {"identity;q=0", ""}, {"deflate, gzip;q=1.0, *;q=0.5", "gzip"},
			{"gzip;q=2", ""}, {"gzip;x", ""}, {"", ""},
		} {
			got := ours.request(t, "GET", "/page.html", "Accept-Encoding: "+test.accept)
			body := got.body
			switch got.header.Get("Content-Encoding") {
			case "gzip":
				body = gunzip(t, body)
			case "zstd":
				body = unzstd(t, body)
			}
			testkit.Equal(t, got.header.Get("Content-Encoding"), test.want, test.accept)
			testkit.Equal(t, body, text, test.accept)
			testkit.Fields(t, got.header, test.accept, "Vary", "Accept-Encoding", "Content-Type",
				"text/html; charset=utf-8", "Content-Length", strconv.Itoa(len(got.body)))
			tags[got.header.Get("Etag")] = true
			again := ours.request(t, "GET", "/page.html", "Accept-Encoding: "+test.accept, "If-None-Match: "+
				got.header.Get("Etag"))
			testkit.Equal(t, again.status, 304, test.accept, "with its own entity tag")
			testkit.Equal(t, again.header.Get("Vary"), "Accept-Encoding", test.accept)
			part := ours.request(t, "GET", "/page.html", "Accept-Encoding: "+test.accept, "Range: bytes=10-19",
				"If-Range: "+got.header.Get("Etag"))
			testkit.Equal(t, part.status, 206, test.accept)
			testkit.Equal(t, part.body, got.body[10:20], test.accept)
			testkit.Fields(t, part.header, test.accept, "Content-Encoding", test.want)
		}
		testkit.Equal(t, len(tags), 3, "entity tags of three variants", tags)
		if got := ours.request(t, "GET", "/huge.txt",
			"Accept-Encoding: gzip"); got.header.Get("Content-Encoding") != "gzip" || gunzip(t, got.body) != huge {
			t.Errorf("a file that is not in memory: %v", got.header)
		}
		for _, path := range []string{"/noise.txt", "/tiny.txt", "/picture.png"} {
			got := ours.request(t, "GET", path, "Accept-Encoding: gzip")
			testkit.Equal(t, got.header.Get("Content-Encoding"), "", path)
		}
	})
}

func TestEncodedSiblingsAreServed(t *testing.T) {
	s := newSite(t, "page.html", "plain", "page.html.gz", "as gzip", "page.html.br", "as br",
		"page.html.zst", large(5, 500_000), "other.html", "other")
	s.must(os.Mkdir(s.path("other.html.gz"), 0o755))
	onEach(t, s.handler(files.Config{Compress: files.Compress{Siblings: true}, Index: []string{"page.html"}}),
		func(t *testing.T, ours host) {
			for _, path := range []string{"/page.html", "/"} {
				for accept, want := range map[string]string{
					"": "plain", "gzip": "as gzip", "gzip, br, zstd": "as br", "br;q=0.1, gzip;q=0.2": "as gzip",
					"deflate": "plain", "zstd": large(5, 500_000),
				} {
					got := ours.request(t, "GET", path, "Accept-Encoding: "+accept)
					testkit.Equal(t, got.body, want, path, accept)
					testkit.Fields(t, got.header, path, "Content-Type", "text/html; charset=utf-8",
						"Vary", "Accept-Encoding")
				}
			}
			got := ours.request(t, "GET", "/other.html", "Accept-Encoding: gzip")
			testkit.Equal(t, got.body, "other", "beside a directory")
			testkit.Fields(t, got.header, "beside a directory", "Vary", "")
			got = ours.request(t, "GET", "/page.html.gz")
			testkit.Equal(t, got.body, "as gzip", "the sibling itself")
			testkit.Fields(t, got.header, "the sibling itself", "Content-Encoding", "")
		})
}

func TestListingShowsDirectory(t *testing.T) {
	s := newSite(t, "d/b.txt", "bb", "d/a <&\">'.txt", "aaaa", "d/c/x", "x", "d/.hidden", "x",
		"e/index.html", "index")
	s.must(os.Symlink(s.out, s.path("d/away")))
	s.must(os.Symlink("b.txt", s.path("d/link")))
	onEach(t, s.handler(files.Config{Listing: true}), func(t *testing.T, ours host) {
		got := ours.request(t, "GET", "/d/")
		testkit.Equal(t, got.status, 200)
		testkit.Equal(t, got.header.Get("Content-Type"), "text/html; charset=utf-8")
		last := -1
		for _, want := range []string{`href="c/"`, `href="a%20%3C%26%22%3E%27.txt"`, `href="b.txt"`, `href="link"`} {
			at := strings.Index(got.body, want)
			testkit.Between(t, at, last+1, len(got.body), want, "comes after the ones before it")
			last = at
		}
		for _, not := range []string{"hidden", "away", "<&"} {
			testkit.Equal(t, strings.Contains(got.body, not), false, "the page contains", not)
		}
		if got := ours.request(t, "HEAD", "/d/"); got.status != 200 || got.body != "" {
			t.Errorf("HEAD: %+v", got)
		}
		testkit.Equal(t, ours.request(t, "GET", "/e/").body, "index", "the index instead of the listing")
		got = ours.request(t, "GET", "/d")
		testkit.Equal(t, got.status, 301)
		testkit.Fields(t, got.header, "without a slash", "Location", "d/")
	})
	onEach(t, s.handler(files.Config{}), func(t *testing.T, ours host) {
		if got := ours.request(t, "GET", "/d/"); got.status != 403 || strings.Contains(got.body, "b.txt") {
			t.Errorf("with listings disabled: %d %q", got.status, got.body)
		}
	})
}

func TestInvalidConfigsAreRejected(t *testing.T) {
	s := newSite(t)
	for want, c := range map[string]files.Config{
		"missing Dir":         {},
		"no such file":        {Dir: s.path("none")},
		`invalid name "../x"`: {Dir: s.dir, Index: []string{"../x"}},
		`invalid name "a/b"`:  {Dir: s.dir, Index: []string{"a/b"}},
		`invalid name ""`:     {Dir: s.dir, Index: []string{""}},
		`field "Etag" must`:   {Dir: s.dir, Header: http.Header{"etag": {"x"}}},
		"invalid value":       {Dir: s.dir, Header: http.Header{"X": {"a\r\nb: c"}}},
		"invalid field":       {Dir: s.dir, Header: http.Header{"X Y": {"a"}}},
		"invalid Cache-Con":   {Dir: s.dir, CacheControl: "a\nb"},
	} {
		testkit.Fails(files.New(c))(t, want)
	}
}

func TestCallerOwnsRoot(t *testing.T) {
	s := newSite(t, "x.txt", "x")
	root := testkit.Value(os.OpenRoot(s.dir))(t)
	defer root.Close()
	h := testkit.Value(files.New(files.Config{Root: root}))(t)
	ours := hosts(t, h)[0]
	testkit.Equal(t, ours.request(t, "GET", "/x.txt").body, "x")
	s.must(h.Close())
	s.must(h.Close())
	testkit.Value(root.Stat("x.txt"))(t) // Close has not closed it
	testkit.Equal(t, ours.request(t, "GET", "/x.txt").status, 503, "after Close")
}

// ServePath serves a path other than the request's, and leaves everything but files to the caller.
func TestServePathLeavesOtherResponsesToCaller(t *testing.T) {
	s := newSite(t, "x.txt", "x", "d/y.txt", "y", "i/index.html", "index", ".hidden", "hidden")
	h := s.handler(files.Config{ByPath: true})
	for range 2 { // the second time from memory
		for _, test := range []struct {
			path   string
			status int
			body   string
			kind   files.Kind
		}{
			{"/x.txt", 0, "x", files.File}, {"/d/y.txt", 0, "y", files.File},
			{"//d//y.txt", 0, "y", files.File}, {"/none", 404, "", files.Nothing},
			{"/d", 301, "", files.Directory}, {"/d/", 403, "", files.Directory},
			{"/i/", 0, "index", files.Directory},
			{"/x.txt/", 301, "", files.File}, {"/d/../x.txt", 400, "", files.Nothing},
			{"/.hidden", 404, "", files.Nothing}, {"/", 403, "", files.Directory},
			{"/a\x00", 400, "", files.Nothing},
		} {
			r := httptest.NewRequest("GET", "/other", nil)
			w := httptest.NewRecorder()
			if got := h.ServePath(w, r, test.path); got != test.status ||
				!strings.Contains(w.Body.String(), test.body) || test.status != 0 && len(w.Header()) > 0 {
				t.Errorf("%q: %d %q %v, want %d %q", test.path, got, w.Body, w.Header(), test.status, test.body)
			}
			testkit.Equal(t, h.Kind(test.path), test.kind, "kind of", test.path)
		}
	}
}

// ServePath leaves 412 and 416 to the caller, for files in memory and others.
func TestServePathLeavesUnmetConditionsToCaller(t *testing.T) {
	s := newSite(t, "x.txt", "0123456789", "large.txt", large(1, 400_000))
	h := s.handler(files.Config{})
	for range 2 {
		for _, test := range []struct {
			path, field, value string
			status             int
			header             http.Header
		}{
			{"/x.txt", "If-Match", `"other"`, 412, nil},
			{"/x.txt", "Range", "bytes=10-", 416, http.Header{"Content-Range": {"bytes */10"}}},
			{"/large.txt", "Range", "bytes=400000-", 416, http.Header{"Content-Range": {"bytes */400000"}}},
		} {
			r, w := httptest.NewRequest("GET", "/other", nil), httptest.NewRecorder()
			r.Header.Set(test.field, test.value)
			if got := h.ServePath(w, r, test.path); got != test.status || w.Body.Len() > 0 ||
				fmt.Sprint(w.Header()) != fmt.Sprint(test.header) {
				t.Errorf("%s: %d %v %q, want %d %v", test.path, got, w.Header(), w.Body, test.status, test.header)
			}
			w = httptest.NewRecorder()
			r.URL.Path = test.path
			h.ServeHTTP(w, r)
			testkit.Equal(t, w.Code, test.status, test.path)
			testkit.Fields(t, w.Header(), test.path, "Content-Length", "0")
		}
	}
}

func TestNoSymlinksHidesFiles(t *testing.T) {
	s := newSite(t, "d/x.txt", "x")
	s.must(os.Symlink("d", s.path("link")))
	s.must(os.Symlink("x.txt", s.path("d/also")))
	h, err := files.New(files.Config{Dir: s.dir, NoSymlinks: true})
	if runtime.GOOS != "linux" {
		testkit.Error(t, err, "", "NoSymlinks without system support")
		return
	}
	s.must(err)
	t.Cleanup(func() { _ = h.Close() })
	status := func(path string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Code
	}
	for path, want := range map[string]int{"/d/x.txt": 200, "/link/x.txt": 403, "/d/also": 403, "/link/": 403,
		"/link/none": 403} {
		testkit.Equal(t, status(path), want, path)
	}
	s.must(os.Rename(s.path("d"), s.path("e")))
	s.must(os.Symlink("e", s.path("d")))
	testkit.WaitFor(t, "the same file behind a link to be hidden", func() bool { return status("/d/x.txt") == 403 })
}

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
