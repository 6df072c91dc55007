package engines

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp/fasthttputil"
)

const (
	// echoed is the requested path, and the response's body.
	echoed = "/foo/bar?baz=123"

	// fastBody is the body of the fast server's response.
	fastBody = "012345678912"
)

// Exchange sends one request and returns the status and the body, which is valid until the next
// call.
type Exchange func() (status int, body []byte, err error)

// ClientOptions configure a client.
type ClientOptions struct {
	Dial  func() (net.Conn, error) // nil dials the URL's host by TCP
	Conns int                      // limits the connections to a host
}

// Client is the client to be measured.
type Client interface {
	// Get returns an Exchange for a URL that makes a new request each time. Each goroutine has
	// its own.
	Get(url string) Exchange
	// Again is like Get, but reuses one request.
	Again(url string) Exchange
	// Close closes idle connections.
	Close()
}

// DoFastServer measures a client whose responses are available at once. Each goroutine sends
// requests to a host of its own.
func DoFastServer(b *testing.B, newClient func(ClientOptions) Client) {
	c := newClient(ClientOptions{Dial: dialFast, Conns: runtime.GOMAXPROCS(0)})
	defer c.Close()
	var host atomic.Int64
	parallel(b, 1, fastBody, func() Exchange {
		return c.Again(fmt.Sprintf("http://host%d.example.org/some/page", host.Add(1)))
	})
}

// EndToEndTCP measures a client and a server over loopback, with parallelism times GOMAXPROCS
// goroutines. The server's response body is the request's path.
func EndToEndTCP(b *testing.B, parallelism int, newClient func(ClientOptions) Client, newServer func() Server) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	endToEnd(b, parallelism, l, "http://"+l.Addr().String()+echoed,
		newClient(ClientOptions{Conns: conns(parallelism)}), newServer())
}

// EndToEndInmemory is like EndToEndTCP, without sockets.
func EndToEndInmemory(b *testing.B, parallelism int, newClient func(ClientOptions) Client, newServer func() Server) {
	l := fasthttputil.NewInmemoryListener()
	endToEnd(b, parallelism, l, "http://example.org"+echoed,
		newClient(ClientOptions{Dial: l.Dial, Conns: conns(parallelism)}), newServer())
}

func conns(parallelism int) int { return parallelism * runtime.GOMAXPROCS(0) }

func endToEnd(b *testing.B, parallelism int, l net.Listener, url string, c Client, s Server) {
	served := make(chan struct{})
	go func() {
		_ = s.Serve(l) // always an error: the listener is closed
		close(served)
	}()
	parallel(b, parallelism, echoed, func() Exchange { return c.Get(url) })
	l.Close() // before the server: a client that still dials blocks the listener
	select {
	case <-served:
	case <-time.After(drainTimeout):
		b.Fatal("the server did not stop")
	}
	c.Close()
	if err := s.Close(); err != nil {
		b.Error(err)
	}
}

// parallel sends b.N requests and checks every response. Each goroutine sends one before the timer
// starts: connecting is negligible in ten seconds, but not in a short run.
func parallel(b *testing.B, parallelism int, want string, newExchange func() Exchange) {
	exchanges := make(chan Exchange, conns(parallelism))
	var connecting sync.WaitGroup
	for range cap(exchanges) {
		connecting.Go(func() {
			exchange := newExchange()
			if err := checked(exchange, want); err != nil {
				b.Error(err)
			}
			exchanges <- exchange
		})
	}
	connecting.Wait()
	b.SetParallelism(parallelism)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		exchange := <-exchanges
		for pb.Next() {
			if err := checked(exchange, want); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
}

func checked(exchange Exchange, want string) error {
	status, got, err := exchange()
	if err == nil && (status != http.StatusOK || string(got) != want) {
		err = fmt.Errorf("want status 200 and %q, got %d and %q", want, status, got)
	}
	return err
}

// fastConn is the client's end of a connection to a server that responds at once.
type fastConn struct {
	requested chan struct{}
	closed    chan struct{}
	once      sync.Once
	response  string
	at        int // position in the current response
	addr      net.TCPAddr
}

func dialFast() (net.Conn, error) {
	return &fastConn{
		requested: make(chan struct{}, 1), closed: make(chan struct{}),
		addr:     net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80},
		response: fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(fastBody), fastBody),
	}, nil
}

// Write receives a request. The clients write it with one call.
func (c *fastConn) Write(p []byte) (int, error) {
	select {
	case c.requested <- struct{}{}:
		return len(p), nil
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

// Read returns the response after a request.
func (c *fastConn) Read(p []byte) (int, error) {
	if c.at == 0 {
		select {
		case <-c.requested:
		case <-c.closed:
			return 0, io.EOF
		}
	}
	n := copy(p, c.response[c.at:])
	c.at = (c.at + n) % len(c.response)
	return n, nil
}

func (c *fastConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func (c *fastConn) LocalAddr() net.Addr              { return &c.addr }
func (c *fastConn) RemoteAddr() net.Addr             { return &c.addr }
func (c *fastConn) SetDeadline(time.Time) error      { return nil }
func (c *fastConn) SetReadDeadline(time.Time) error  { return nil }
func (c *fastConn) SetWriteDeadline(time.Time) error { return nil }
