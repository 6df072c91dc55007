package files_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/internal/files"
)

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
			if got := test.h.Kind(test.path); got != test.kind {
				t.Errorf("%q is %d, want %d", test.path, got, test.kind)
			}
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
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
}
