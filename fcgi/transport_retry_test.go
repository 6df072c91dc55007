package fcgi_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tarehq/tare/fcgi"
)

// plain is a connection whose socket is hidden from the Transport. It reports writes.
type plain struct {
	net.Conn
	fails *atomic.Bool // writes fail, and write nothing
}

func (p plain) Write(b []byte) (int, error) {
	if p.fails != nil && p.fails.Load() {
		return 0, errWanted
	}
	return p.Conn.Write(b)
}

// once returns a dialer to an application. Its first connection responds to one request. On a
// second request it calls second and closes the connection. Later connections respond to all
// requests.
func once(t *testing.T, requests *atomic.Int32, second func(p *peer)) func(
	context.Context, string, string) (net.Conn, error) {
	return piped(t, func(p *peer, n int) {
		for i := 0; p.request() != nil; i++ {
			requests.Add(1)
			if n == 0 && i == 1 {
				second(p)
				return
			}
			p.respond("\nbody")
		}
	})
}

// A request on a kept connection that ends without a response is retried if that is safe, and only
// once.
func TestRequestIsRetriedOnlyIfSafe(t *testing.T) {
	body := func() io.ReadCloser { return io.NopCloser(strings.NewReader("body")) }
	long := func() (io.ReadCloser, error) { return io.NopCloser(newPattern(100_000)), nil }
	for _, test := range []struct {
		name   string
		change func(r *http.Request)
		second func(p *peer)
		want   int32 // requests that the application has received; 2 means no retry
	}{
		{"GET", func(*http.Request) {}, nil, 3},
		{"no method", func(r *http.Request) { r.Method = "" }, nil, 3},
		{"HEAD", func(r *http.Request) { r.Method = "HEAD" }, nil, 3},
		{"POST", func(r *http.Request) { r.Method = "POST" }, nil, 2},
		{"PATCH with a body", func(r *http.Request) { r.Method, r.Body, r.ContentLength = "PATCH", body(), 4 }, nil, 2},
		{"POST with a key", func(r *http.Request) { r.Method = "POST"; r.Header.Set("Idempotency-Key", "1") }, nil, 3},
		{"POST with a key and a short body", func(r *http.Request) {
			r.Method, r.Body, r.ContentLength = "POST", body(), 4
			r.Header.Set("X-Idempotency-Key", "1")
		}, nil, 3},
		{"GET with a long body", func(r *http.Request) { r.Body, _ = long(); r.ContentLength = 100_000 }, nil, 2},
		{"GET with a long body that can be had again", func(r *http.Request) {
			r.Body, _ = long()
			r.ContentLength, r.GetBody = 100_000, long
		}, nil, 3},
		{"GET with a body that cannot be read again after all", func(r *http.Request) {
			r.Body, _ = long()
			r.ContentLength, r.GetBody = 100_000, func() (io.ReadCloser, error) { return nil, errWanted }
		}, nil, 2},
		{"GET that has got a byte", func(*http.Request) {}, func(p *peer) { p.Write([]byte{1}) }, 2},
	} {
		var requests atomic.Int32
		second := test.second
		if second == nil {
			second = func(*peer) {}
		}
		tr := checked(t, &fcgi.Transport{Addr: "pipe:1", MaxIdleConnsPerHost: 1, MaxConnsPerHost: 1,
			DialContext: once(t, &requests, second)})
		must(t, tr, get(t, address), "body")
		r := get(t, address)
		test.change(r)
		resp, _, err := responseTo(tr, r)
		if (resp != nil) != (test.want == 3) || resp == nil && !errors.Is(err, io.ErrUnexpectedEOF) ||
			requests.Load() != test.want {
			t.Errorf("%s: %d requests, %v", test.name, requests.Load(), err)
		}
		must(t, tr, get(t, address), "body")
	}
}

// A retry uses a new connection, in place of one that is kept, and does not affect the others.
func TestRetryDoesNotAffectOtherConnections(t *testing.T) {
	const conns = 4
	var all sync.WaitGroup
	arrived := make(chan bool)
	var proceed [conns]chan bool
	tr := checked(t, &fcgi.Transport{Addr: "pipe:1", MaxIdleConnsPerHost: conns,
		DialContext: piped(t, func(p *peer, n int) {
			// the last connection breaks
			for i := 0; p.request() != nil && (n != conns-1 || i == 0); i++ {
				if n < conns && i == 0 {
					arrived <- true
					<-proceed[n]
				}
				p.respond("\nbody")
			}
		})})
	for n := range proceed {
		proceed[n] = make(chan bool)
		all.Go(func() { must(t, tr, get(t, address), "body") })
		<-arrived
	}
	for n := range proceed {
		proceed[n] <- true
		eventually(t, "the connection is kept", func() bool { return tr.Idle() == n+1 })
	}
	all.Wait()
	must(t, tr, get(t, address), "body")
	if tr.Idle() != conns-1 {
		t.Errorf("%d connections are kept", tr.Idle())
	}
}

// A request with a buffered body can be retried.
func TestRetryOfBufferedBody(t *testing.T) {
	var requests atomic.Int32
	tr := checked(t, &fcgi.Transport{Addr: "pipe:1", MaxIdleConnsPerHost: 1, BufferBody: 1 << 20,
		DialContext: once(t, &requests, func(*peer) {})})
	for range 2 {
		r := newRequest(t, "POST", address, io.MultiReader(newPattern(100_000)))
		r.Header.Set("Idempotency-Key", "1")
		must(t, tr, r, "body")
		eventually(t, "the connection is kept", func() bool { return tr.Idle() == 1 })
	}
	if requests.Load() != 3 {
		t.Errorf("%d requests", requests.Load())
	}
}

// A request of which nothing was sent may be retried, whatever its method.
func TestUnsentRequestIsRetried(t *testing.T) {
	for _, body := range []string{"", "short", strings.Repeat("long", 10_000)} {
		var fails atomic.Bool
		var requests atomic.Int32
		dial := once(t, &requests, func(*peer) { t.Error("the first connection was used again") })
		dials := 0
		tr := checked(t, &fcgi.Transport{Addr: "pipe:1", MaxIdleConnsPerHost: 1,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := dial(ctx, network, addr)
				if dials++; dials == 1 {
					return plain{nc, &fails}, err
				}
				return nc, err
			}})
		must(t, tr, get(t, address), "body")
		fails.Store(true)
		must(t, tr, newRequest(t, "POST", address, strings.NewReader(body)), "body")
		if dials != 2 || requests.Load() != 2 {
			t.Errorf("%d connections, %d requests", dials, requests.Load())
		}
	}
}

// A kept connection that the application has closed is not used. So no retry is needed, and not
// even a POST fails.
func TestClosedConnectionIsNotUsed(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		for _, last := range []string{"", "unrequested"} {
			var conns []net.Conn
			wrote := make(chan struct{}, 3)
			tr := checked(t, &fcgi.Transport{MaxIdleConnsPerHost: 2, Addr: listen(t, network, func(p *peer, _ int) {
				p.request()
				p.respond("\nbody")
				io.WriteString(p, last)
				wrote <- struct{}{}
			}), DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := new(net.Dialer).DialContext(ctx, network, addr)
				conns = append(conns, nc)
				return nc, err
			}})
			for i := range 3 {
				must(t, tr, newRequest(t, "POST", address, strings.NewReader("body")), "body")
				<-wrote
				// a closed connection stays readable: wait until it is
				if last == "" && tr.Idle() == 1 {
					if n, err := conns[i].Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
						t.Fatalf("%d, %v", n, err)
					}
				}
			}
			if len(conns) != 3 {
				t.Errorf("%d connections", len(conns))
			}
		}
	}
}

// deaf is a connection that accepts only the first byte of a write.
type deaf struct{ net.Conn }

func (d deaf) Write(b []byte) (int, error) {
	n, _ := d.Conn.Write(b[:1])
	return n, errWanted
}
