package files_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tarehq/tare/front/internal/files"
	"github.com/tarehq/tare/internal/testkit"
)

// sink is a cheap ResponseWriter.
type sink struct {
	header http.Header
	bytes  int
}

func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(int)     {}
func (s *sink) Write(p []byte) (int, error) {
	s.bytes += len(p)
	return len(p), nil
}
func (s *sink) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(io.Discard, r)
	s.bytes += int(n)
	return n, err
}

func (s *sink) serve(h http.Handler, r *http.Request) {
	s.header = make(http.Header)
	h.ServeHTTP(s, r)
}

// A small file in memory costs one allocation, for the values, in addition to those of a header
// with one field, which the server needs anyway. The request's fields make no difference.
func TestSmallFileCostsOneAllocation(t *testing.T) {
	s := newSite(t, "x.html", large(1, 3516))
	h := s.handler(files.Config{CacheControl: "max-age=60", Compress: files.Compress{Gzip: true, Siblings: true}})
	r := httptest.NewRequest("GET", "/x.html", nil)
	browser := httptest.NewRequest("GET", "/x.html", nil)
	for name, value := range map[string]string{
		"User-Agent": "x", "Accept": "*/*", "Accept-Encoding": "gzip, deflate, br, zstd", "Accept-Language": "en",
		"Cookie": "a=b",
	} {
		browser.Header.Set(name, value)
	}
	var w sink
	base := testkit.Allocs(200, func() {
		w.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Etag"] = nil
			_, _ = w.Write(nil)
		}), r)
	})
	for what, r := range map[string]*http.Request{"bare": r, "browser's": browser} {
		n := testkit.Allocs(200, func() { w.serve(h, r) })
		testkit.Between(t, n, 0, base+1, "allocations of a", what, "request; of a header", base)
	}
}
