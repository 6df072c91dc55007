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
	// echoed is the path that is asked for, and answered as the body.
	echoed = "/foo/bar?baz=123"

	// fastBody is the body that a fast server answers.
	fastBody = "012345678912"
)

// Ask makes one request and returns its status and body, which is valid until the next.
type Ask func() (status int, body []byte, err error)

// ClientOptions are what a client is made of.
type ClientOptions struct {
	Dial  func() (net.Conn, error) // nil: by TCP, to where the URL says
	Conns int                      // connections to a host that are kept
}

// Client is what is measured, with a server of its own library.
type Client interface {
	// Get returns what asks for a URL, with a new request each time. Each goroutine has
	// one of its own.
	Get(url string) Ask
	// Again does the same with one request, which is used again.
	Again(url string) Ask
	// Close closes connections that are not used.
	Close()
}

// DoFastServer measures a client whose answers are there as soon as it has asked. Each
// goroutine asks a host of its own.
func DoFastServer(b *testing.B, newClient func(ClientOptions) Client) {
	c := newClient(ClientOptions{Dial: dialFast, Conns: runtime.GOMAXPROCS(0)})
	defer c.Close()
	var host atomic.Int64
	parallel(b, 1, fastBody, func() Ask { return c.Again(fmt.Sprintf("http://host%d.example.org/some/page", host.Add(1))) })
}

// EndToEndTCP measures a client and a server over loopback, parallelism times as many at
// a time as GOMAXPROCS. The server answers as the body what it was asked for.
func EndToEndTCP(b *testing.B, parallelism int, newClient func(ClientOptions) Client, newServer func() Server) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	endToEnd(b, parallelism, l, "http://"+l.Addr().String()+echoed, newClient(ClientOptions{Conns: conns(parallelism)}), newServer())
}

// EndToEndInmemory does the same without sockets.
func EndToEndInmemory(b *testing.B, parallelism int, newClient func(ClientOptions) Client, newServer func() Server) {
	l := fasthttputil.NewInmemoryListener()
	endToEnd(b, parallelism, l, "http://example.org"+echoed, newClient(ClientOptions{Dial: l.Dial, Conns: conns(parallelism)}), newServer())
}

func conns(parallelism int) int { return parallelism * runtime.GOMAXPROCS(0) }

func endToEnd(b *testing.B, parallelism int, l net.Listener, url string, c Client, s Server) {
	served := make(chan struct{})
	go func() {
		_ = s.Serve(l) // which ends with an error that says that the listener was closed
		close(served)
	}()
	parallel(b, parallelism, echoed, func() Ask { return c.Get(url) })
	l.Close() // before the server: a client that still dials holds the listener
	select {
	case <-served:
	case <-time.After(patience):
		b.Fatal("the server did not stop")
	}
	c.Close()
	if err := s.Close(); err != nil {
		b.Error(err)
	}
}

// parallel asks b.N times and checks every answer. Everybody asks once before that: to
// connect counts for nothing in ten seconds, and for much in a part of one.
func parallel(b *testing.B, parallelism int, want string, newAsk func() Ask) {
	asks := make(chan Ask, conns(parallelism))
	var connecting sync.WaitGroup
	for range cap(asks) {
		connecting.Go(func() {
			ask := newAsk()
			if err := checked(ask, want); err != nil {
				b.Error(err)
			}
			asks <- ask
		})
	}
	connecting.Wait()
	b.SetParallelism(parallelism)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		ask := <-asks
		for pb.Next() {
			if err := checked(ask, want); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
}

func checked(ask Ask, want string) error {
	status, got, err := ask()
	if err == nil && (status != http.StatusOK || string(got) != want) {
		err = fmt.Errorf("want status 200 and %q, got %d and %q", want, status, got)
	}
	return err
}

// fastConn is a client's end of a connection to a server that takes no time.
type fastConn struct {
	asked  chan struct{}
	closed chan struct{}
	once   sync.Once
	answer string
	at     int // of the answer that is being read
	addr   net.TCPAddr
}

func dialFast() (net.Conn, error) {
	return &fastConn{
		asked: make(chan struct{}, 1), closed: make(chan struct{}), addr: net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80},
		answer: fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(fastBody), fastBody),
	}, nil
}

// Write takes a request: clients here write it whole.
func (c *fastConn) Write(p []byte) (int, error) {
	select {
	case c.asked <- struct{}{}:
		return len(p), nil
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

// Read gives the answer, once it was asked for.
func (c *fastConn) Read(p []byte) (int, error) {
	if c.at == 0 {
		select {
		case <-c.asked:
		case <-c.closed:
			return 0, io.EOF
		}
	}
	n := copy(p, c.answer[c.at:])
	c.at = (c.at + n) % len(c.answer)
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
