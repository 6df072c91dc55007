package cache_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/byterange"
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
		testkit.Must(t, a.Send(w, r, byterange.Selector{}))
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

// slowWriter is a client that reads nothing until it is released.
type slowWriter struct {
	silent
	release <-chan struct{}
}

func (w *slowWriter) Write(b []byte) (int, error) {
	<-w.release
	return w.silent.Write(b)
}

// zeros is a body that needs no memory.
type zeros struct{ left int64 }

func (z *zeros) Read(p []byte) (int, error) {
	n := min(int64(len(p)), z.left)
	if z.left -= n; z.left == 0 {
		return int(n), io.EOF
	}
	clear(p[:n])
	return int(n), nil
}

func (z *zeros) Close() error { return nil }

// heldReaders are slow clients of a cache.
type heldReaders struct {
	site    *site
	size    int64
	release chan struct{}
	all     sync.WaitGroup
}

// start requests a key, and returns the response without reading its body.
func (h *heldReaders) start(t *testing.T, key string, fields ...string) {
	h.all.Go(func() {
		a, r, err := h.site.find(cache.Query{}, "GET", key, fields...)
		if err != nil {
			t.Error(err)
			return
		}
		defer a.Close()
		w := &slowWriter{silent{header: make(http.Header)}, h.release}
		if a.Passed != nil {
			_, err = io.Copy(w, a.Passed.Body)
		} else {
			err = a.Send(w, r, byterange.Selector{})
		}
		want := h.size
		if fields != nil && a.Passed == nil { // the origin does not support ranges
			want--
		}
		testkit.Check(t, err)
		testkit.Equal(t, int64(w.bytes), want, "bytes of", key)
	})
}

// Slow clients never hold more memory than the cache may use. What they read may be on its way in,
// stored, evicted, replaced or purged.
func TestMemoryOfSlowReadersIsLimited(t *testing.T) {
	testkit.Long(t, "it transfers much")
	const memory, clients, size = 4 << 20, 150, 256 << 10
	change := func(h *heldReaders, what string, i int) {
		switch what {
		case "purged":
			h.site.cache.Purge(fmt.Sprint("http://a.example/", i))
		case "replaced":
			h.site.query(cache.Query{Skip: true}, "GET", fmt.Sprint("http://a.example/", i))
		}
	}
	for _, dir := range []string{"", t.TempDir()} {
		for _, what := range []string{"on its way", "stored", "purged", "replaced", "parts"} {
			t.Run(fmt.Sprintf("%s, on disk %v", what, dir != ""), func(t *testing.T) {
				size := int64(size)
				if dir != "" {
					size = 125 << 10 // small enough for memory, too
				}
				before := heap()
				synctest.Test(t, func(t *testing.T) {
					s := newSite(t, conf.Cache{Name: "test", Dir: dir, MemoryBytes: memory}, conf.CachePolicy{})
					s.respondBy(func(*http.Request) (*http.Response, error) {
						return &http.Response{StatusCode: 200, Header: headerOf(fresh), Body: &zeros{size},
							ContentLength: size}, nil
					})
					h := &heldReaders{site: s, size: size, release: make(chan struct{})}
					for i := range clients {
						key := fmt.Sprint("http://a.example/", i)
						if what != "on its way" {
							s.query(cache.Query{}, "GET", key)
							synctest.Wait()
						}
						if what == "parts" {
							h.start(t, key, "Range: bytes=1-")
						} else {
							h.start(t, key)
						}
						synctest.Wait()
						change(h, what, i)
					}
					synctest.Wait()
					if used := heap() - before; used > 3*memory {
						t.Errorf("%d MB of memory are in use", used>>20)
					}
					pending, loose := cache.Held(s.cache)
					testkit.Between(t, pending, 0, memory/4, "bytes on their way in")
					testkit.Between(t, loose, 0, memory/2, "evicted bytes in use")
					close(h.release)
					h.all.Wait()
					synctest.Wait()
					pending, loose = cache.Held(s.cache)
					testkit.Equal(t, pending, 0, "bytes on their way in, without a reader")
					testkit.Equal(t, loose, 0, "evicted bytes without a reader")
					s.cache.Close()
				})
			})
		}
	}
}

// A body is in memory once, for any number of readers.
func TestSlowReadersShareABody(t *testing.T) {
	config := conf.Cache{Name: "test", MemoryBytes: 16 << 20}
	inCache(t, config, conf.CachePolicy{}, func(t *testing.T, s *site) {
		s.respondBy(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: headerOf(fresh), Body: &zeros{1 << 20},
				ContentLength: 1 << 20}, nil
		})
		h := &heldReaders{site: s, size: 1 << 20, release: make(chan struct{})}
		s.query(cache.Query{}, "GET", "http://a.example/x")
		synctest.Wait()
		for range 100 {
			h.start(t, "http://a.example/x")
		}
		synctest.Wait()
		testkit.Equal(t, s.requests(), 1, "requests that the origin received")
		close(h.release)
		h.all.Wait()
	})
}

// heap returns the bytes of memory in use.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
