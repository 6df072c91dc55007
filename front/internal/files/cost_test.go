package files_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
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
	s := newSite(t)
	s.write("x.html", large(1, 3516))
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

func BenchmarkHandler(b *testing.B) {
	s := newSite(b)
	s.write("index.html", large(1, 3516))
	s.write("large.bin", large(2, 10<<20))
	for i := range 10_000 {
		name := s.path("f" + strconv.Itoa(i))
		s.must(os.WriteFile(name, []byte(large(byte(i), 1000)), 0o644))
	}
	for _, way := range []struct {
		name string
		h    http.Handler
	}{
		{"tare", s.handler(files.Config{})},
		{"tare-compressing", s.handler(files.Config{Compress: files.Compress{Gzip: true, Zstd: true, Siblings: true}})},
		{"net-http", http.FileServer(http.Dir(s.dir))},
	} {
		request := func(path string, fields ...string) *http.Request {
			r := httptest.NewRequest("GET", path, nil)
			for i := 0; i < len(fields); i += 2 {
				r.Header.Set(fields[i], fields[i+1])
			}
			return r
		}
		one := func(name string, r ...*http.Request) {
			b.Run(name+"/"+way.name, func(b *testing.B) {
				b.ReportAllocs()
				var w sink
				for _, r := range r {
					w.serve(way.h, r)
				}
				i := 0
				for b.Loop() {
					w.serve(way.h, r[i%len(r)])
					i++
				}
			})
		}
		one("page", request("/"))
		one("browser", request("/", "User-Agent", "x", "Accept", "*/*", "Accept-Encoding", "gzip, deflate, br, zstd",
			"Accept-Language", "en", "Cookie", "a=b"))
		one("not-modified", request("/", "If-Modified-Since", past.Format(http.TimeFormat)))
		one("range", request("/", "Range", "bytes=100-199"))
		one("missing", request("/none"))
		one("large", request("/large.bin"))
		var many []*http.Request
		for i := range 10_000 {
			many = append(many, request("/f"+strconv.Itoa(i)))
		}
		one("many", many...)
	}
}
