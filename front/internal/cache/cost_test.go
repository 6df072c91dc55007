package cache_test

import (
	"net/http"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/internal/testkit"
)

// silent is a client that counts the bytes of the response, and discards them.
type silent struct {
	header http.Header
	bytes  int
}

func (s *silent) Header() http.Header { return s.header }
func (s *silent) WriteHeader(int)     {}

func (s *silent) Write(b []byte) (int, error) {
	s.bytes += len(b)
	return len(b), nil
}

// nobody is an origin that gets no requests.
type nobody struct {
	t      testing.TB
	header http.Header // of the request
}

func (n nobody) Field(name string) []string { return n.header[name] }

func (n nobody) Request(cache.OriginRequest) cache.Fetch {
	n.t.Error("the origin received a request")
	return nil
}

// hitter returns a function that requests a stored response.
func hitter(t testing.TB) func() {
	c := testkit.Value(cache.New(conf.Cache{Name: "test"}, nil))(t)
	t.Cleanup(c.Close)
	rules := testkit.Value(cache.Compile(conf.CachePolicy{Lock: true}, true))(t)
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.example/some/path/to/a/page.html", nil)
	r.Header = headerOf("Accept: */*", "Accept-Encoding: gzip", "User-Agent: x")
	s := &site{cache: c}
	q := cache.Query{Context: r.Context(), Method: r.Method, Header: r.Header, Key: r.URL.String(), Rules: rules,
		Origin: &visit{site: s, r: r}}
	s.responds(200, big(1<<10), fresh, "Vary: Accept-Encoding", "Content-Type: text/html", `Etag: "x"`,
		"Last-Modified: Fri, 31 Dec 1999 00:00:00 GMT")
	for a := (*cache.Response)(nil); a == nil || a.State != cache.StateHit; {
		a = testkit.Value(c.Find(q))(t)
		a.Close()
	}
	w := &silent{header: make(http.Header)}
	q.Origin = nobody{t, r.Header}
	return func() {
		a := testkit.Value(c.Find(q))(t)
		testkit.Must(t, a.Send(w, r))
		a.Close()
	}
}

// A hit costs one allocation: its Response.
func TestHitAllocatesItsResponse(t *testing.T) {
	testkit.NoRace(t, "the race detector allocates")
	testkit.Between(t, testkit.Allocs(1000, hitter(t)), 0, 1, "allocations of a hit")
}

func BenchmarkHit(b *testing.B) {
	hit := hitter(b)
	b.ReportAllocs()
	for b.Loop() {
		hit()
	}
}
