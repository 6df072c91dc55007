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
			if got.header.Get("Content-Length") != strconv.Itoa(len(got.body)) {
				t.Errorf("Content-Length %s, got %d bytes", got.header.Get("Content-Length"), len(got.body))
			}
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
			if strings.Join(parts, "|") != strings.Join(want, "|") {
				t.Errorf("%s: %q, want %q", path, parts, want)
			}
			// Overlapping ranges are joined, and too many are ignored.
			if got := ours.request(t, "GET", path, "Range: bytes=0-5,2-7,8-9"); got.status != 206 ||
				got.header.Get("Content-Range") != "bytes 0-9/"+size || got.body != c[:10] {
				t.Errorf("%s: %d %q", path, got.status, got.header.Get("Content-Range"))
			}
			if got := ours.request(t, "GET", path, "Range: bytes=0-0"+strings.Repeat(",5-5", 16)); got.status != 200 ||
				got.body != c {
				t.Errorf("%s: 17 ranges give %d", path, got.status)
			}
			if got := ours.request(t, "GET", path, "Range: bytes=0-"+strings.Repeat(",0-", 2000)); got.status != 200 ||
				got.body != c {
				t.Errorf("%s: 2001 ranges give %d", path, got.status)
			}
		}
	})
}

func TestOtherMethodsAreRejected(t *testing.T) {
	s := newSite(t)
	s.write("x.txt", "x")
	onEach(t, s.handler(files.Config{Header: http.Header{"x-frame-options": {"DENY"}, "Link": {"<a>", "<b>"}}}),
		func(t *testing.T, ours host) {
			for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"} {
				if got := ours.request(t, method, "/x.txt"); got.status != 405 ||
					got.header.Get("Allow") != "GET, HEAD" {
					t.Errorf("%s: %d, Allow %q", method, got.status, got.header.Get("Allow"))
				}
			}
			for _, path := range []string{"/x.txt", "/x.txt", "/none", "/x.txt/"} {
				got := ours.request(t, "GET", path)
				if got.header.Get("X-Frame-Options") != "DENY" || strings.Join(got.header["Link"], " ") != "<a> <b>" {
					t.Errorf("%s: %v", path, got.header)
				}
			}
		})
}

// Middleware may change the header that it receives, and has fields of its own.
func TestMiddlewareMayChangeHeader(t *testing.T) {
	s := newSite(t)
	s.write("x.html", strings.Repeat("<p>x", 1000))
	h := s.handler(files.Config{Header: http.Header{"Link": {"<a>"}}, Compress: files.Compress{Gzip: true}})
	around := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/x-special")
		w.Header().Set("Vary", "Origin")
		h.ServeHTTP(spoiler{w}, r)
	})
	onEach(t, around, func(t *testing.T, ours host) {
		for range 3 {
			got := ours.request(t, "GET", "/x.html")
			if v := got.header["Vary"]; len(v) != 2 || v[0] != "Origin" || v[1] != "Accept-Encoding" {
				t.Errorf("Vary: %q", v)
			}
			if got.header.Get("Content-Type") != "text/x-special" ||
				strings.Join(got.header["Link"], "|") != "spoiled|more" || got.header.Get("X-Was") != "<a>" {
				t.Errorf("%v", got.header)
			}
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
		if plain.body != text || plain.header.Get("Vary") != "Accept-Encoding" ||
			plain.header.Get("Content-Encoding") != "" {
			t.Errorf("without Accept-Encoding: %v", plain.header)
		}
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
			if got.header.Get("Content-Encoding") != test.want || body != text {
				t.Errorf("%q: %q, %d bytes", test.accept, got.header.Get("Content-Encoding"), len(body))
			}
			if got.header.Get("Vary") != "Accept-Encoding" ||
				got.header.Get("Content-Type") != "text/html; charset=utf-8" ||
				got.header.Get("Content-Length") != strconv.Itoa(len(got.body)) {
				t.Errorf("%q: %v", test.accept, got.header)
			}
			tags[got.header.Get("Etag")] = true
			again := ours.request(t, "GET", "/page.html", "Accept-Encoding: "+test.accept, "If-None-Match: "+
				got.header.Get("Etag"))
			if again.status != 304 || again.header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("%q: its own entity tag results in %d %v", test.accept, again.status, again.header)
			}
			part := ours.request(t, "GET", "/page.html", "Accept-Encoding: "+test.accept, "Range: bytes=10-19",
				"If-Range: "+got.header.Get("Etag"))
			if part.status != 206 || part.body != got.body[10:20] || part.header.Get("Content-Encoding") != test.want {
				t.Errorf("%q: a range: %d %v", test.accept, part.status, part.header)
			}
		}
		if len(tags) != 3 {
			t.Errorf("%d entity tags of three variants: %v", len(tags), tags)
		}
		if got := ours.request(t, "GET", "/huge.txt",
			"Accept-Encoding: gzip"); got.header.Get("Content-Encoding") != "gzip" || gunzip(t, got.body) != huge {
			t.Errorf("a file that is not in memory: %v", got.header)
		}
		for _, path := range []string{"/noise.txt", "/tiny.txt", "/picture.png"} {
			if got := ours.request(t, "GET", path, "Accept-Encoding: gzip"); got.header.Get("Content-Encoding") != "" {
				t.Errorf("%s is compressed", path)
			}
		}
	})
}

func TestEncodedSiblingsAreServed(t *testing.T) {
	s := newSite(t)
	s.write("page.html", "plain")
	s.write("page.html.gz", "as gzip")
	s.write("page.html.br", "as br")
	s.write("page.html.zst", large(5, 500_000))
	s.write("other.html", "other")
	s.must(os.Mkdir(s.path("other.html.gz"), 0o755))
	onEach(t, s.handler(files.Config{Compress: files.Compress{Siblings: true}, Index: []string{"page.html"}}),
		func(t *testing.T, ours host) {
			for _, path := range []string{"/page.html", "/"} {
				for accept, want := range map[string]string{
					"": "plain", "gzip": "as gzip", "gzip, br, zstd": "as br", "br;q=0.1, gzip;q=0.2": "as gzip",
					"deflate": "plain", "zstd": large(5, 500_000),
				} {
					got := ours.request(t, "GET", path, "Accept-Encoding: "+accept)
					if got.body != want || got.header.Get("Content-Type") != "text/html; charset=utf-8" ||
						got.header.Get("Vary") != "Accept-Encoding" {
						t.Errorf("%s %q: %.20q %v", path, accept, got.body, got.header)
					}
				}
			}
			if got := ours.request(t, "GET", "/other.html", "Accept-Encoding: gzip"); got.body != "other" ||
				got.header.Get("Vary") != "" {
				t.Errorf("a directory was served as a sibling: %v", got)
			}
			if got := ours.request(t, "GET", "/page.html.gz"); got.body != "as gzip" ||
				got.header.Get("Content-Encoding") != "" {
				t.Errorf("request for the sibling itself: %v", got)
			}
		})
}

func TestListingShowsDirectory(t *testing.T) {
	s := newSite(t)
	s.write("d/b.txt", "bb")
	s.write("d/a <&\">'.txt", "aaaa")
	s.write("d/c/x", "x")
	s.write("d/.hidden", "x")
	s.write("e/index.html", "index")
	s.must(os.Symlink(s.out, s.path("d/away")))
	s.must(os.Symlink("b.txt", s.path("d/link")))
	onEach(t, s.handler(files.Config{Listing: true}), func(t *testing.T, ours host) {
		got := ours.request(t, "GET", "/d/")
		if got.status != 200 || got.header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Fatalf("%d %v", got.status, got.header)
		}
		last := -1
		for _, want := range []string{`href="c/"`, `href="a%20%3C%26%22%3E%27.txt"`, `href="b.txt"`, `href="link"`} {
			at := strings.Index(got.body, want)
			if at <= last {
				t.Errorf("%s is out of order in\n%s", want, got.body)
			}
			last = at
		}
		for _, not := range []string{"hidden", "away", "<&"} {
			if strings.Contains(got.body, not) {
				t.Errorf("the page contains %q", not)
			}
		}
		if got := ours.request(t, "HEAD", "/d/"); got.status != 200 || got.body != "" {
			t.Errorf("HEAD: %+v", got)
		}
		if got := ours.request(t, "GET", "/e/"); got.body != "index" {
			t.Errorf("the index does not replace the listing: %q", got.body)
		}
		if got := ours.request(t, "GET", "/d"); got.status != 301 || got.header.Get("Location") != "d/" {
			t.Errorf("without a slash: %d %q", got.status, got.header.Get("Location"))
		}
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
		h, err := files.New(c)
		if err == nil {
			_ = h.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestCallerOwnsRoot(t *testing.T) {
	s := newSite(t)
	s.write("x.txt", "x")
	root, err := os.OpenRoot(s.dir)
	s.must(err)
	defer root.Close()
	h, err := files.New(files.Config{Root: root})
	s.must(err)
	ours := hosts(t, h)[0]
	if got := ours.request(t, "GET", "/x.txt"); got.body != "x" {
		t.Errorf("%+v", got)
	}
	s.must(h.Close())
	s.must(h.Close())
	if _, err := root.Stat("x.txt"); err != nil {
		t.Errorf("Close has closed the root: %v", err)
	}
	if got := ours.request(t, "GET", "/x.txt"); got.status != 503 {
		t.Errorf("after Close: %d", got.status)
	}
}

// ServePath serves a path other than the request's, and leaves everything but files to the caller.
func TestServePathLeavesOtherResponsesToCaller(t *testing.T) {
	s := newSite(t)
	s.write("x.txt", "x")
	s.write("d/y.txt", "y")
	s.write("i/index.html", "index")
	s.write(".hidden", "hidden")
	h := s.handler(files.Config{})
	listing := s.handler(files.Config{Listing: true})
	for range 2 { // the second time from memory
		for _, test := range []struct {
			path   string
			h      *files.Handler
			status int
			body   string
			kind   files.Kind
		}{
			{"/x.txt", h, 0, "x", files.File}, {"/d/y.txt", h, 0, "y", files.File},
			{"//d//y.txt", h, 0, "y", files.File}, {"/none", h, 404, "", files.Nothing},
			{"/d", h, 301, "", files.Directory}, {"/d/", h, 403, "", files.Directory},
			{"/i/", h, 0, "index", files.Directory},
			{"/x.txt/", h, 301, "", files.File}, {"/d/../x.txt", h, 400, "", files.Nothing},
			{"/.hidden", h, 404, "", files.Nothing}, {"/", h, 403, "", files.Directory},
			{"/d/", listing, 0, "y.txt", files.Directory}, {"/a\x00", h, 400, "", files.Nothing},
		} {
			r := httptest.NewRequest("GET", "/other", nil)
			w := httptest.NewRecorder()
			if got := test.h.ServePath(w, r, test.path); got != test.status ||
				!strings.Contains(w.Body.String(), test.body) || test.status != 0 && len(w.Header()) > 0 {
				t.Errorf("%q: %d %q %v, want %d %q", test.path, got, w.Body, w.Header(), test.status, test.body)
			}
			testkit.Equal(t, test.h.Kind(test.path), test.kind, test.path)
		}
	}
}

// ServePath leaves 412 and 416 to the caller, for files in memory and others.
func TestServePathLeavesUnmetConditionsToCaller(t *testing.T) {
	s := newSite(t)
	s.write("x.txt", "0123456789")
	s.write("large.txt", large(1, 400_000))
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
			if h.ServeHTTP(w, r); w.Code != test.status || w.Header().Get("Content-Length") != "0" {
				t.Errorf("%s: the handler itself sends %d %v", test.path, w.Code, w.Header())
			}
		}
	}
}

func TestFilesHaveTypeAndEntityTag(t *testing.T) {
	s := newSite(t)
	s.write("x.foo", "x")
	s.write("y.html", "y")
	s.write("y.html.gz", "packed")
	s.write("large.foo", large(1, 400_000))
	ours := hosts(t, s.handler(files.Config{NoEtag: true, Compress: files.Compress{Siblings: true},
		TypeOf: func(name string) string {
			if strings.HasSuffix(name, ".foo") {
				return "a/foo"
			}
			return ""
		}}))[1]
	for path, want := range map[string]string{"/x.foo": "a/foo", "/large.foo": "a/foo",
		"/y.html": "text/html; charset=utf-8"} {
		got := ours.request(t, "GET", path, "Accept-Encoding: gzip")
		if got.status != 200 || got.header.Get("Content-Type") != want || got.header.Get("Etag") != "" {
			t.Errorf("%s: %d %v", path, got.status, got.header)
		}
	}
}

func TestNoSymlinksHidesFiles(t *testing.T) {
	s := newSite(t)
	s.write("d/x.txt", "x")
	s.must(os.Symlink("d", s.path("link")))
	s.must(os.Symlink("x.txt", s.path("d/also")))
	h, err := files.New(files.Config{Dir: s.dir, NoSymlinks: true})
	if runtime.GOOS != "linux" {
		if err == nil {
			t.Error("NoSymlinks is accepted without system support")
		}
		return
	}
	s.must(err)
	t.Cleanup(func() { _ = h.Close() })
	server := httptest.NewServer(h)
	defer server.Close()
	for path, want := range map[string]int{"/d/x.txt": 200, "/link/x.txt": 403, "/d/also": 403, "/link/": 403,
		"/link/none": 403} {
		resp, err := http.Get(server.URL + path)
		s.must(err)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		testkit.Equal(t, resp.StatusCode, want, path)
	}
}
