package fcgi_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tarehq/tare/fcgi"
)

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
