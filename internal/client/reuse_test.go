package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// A connection serves one request after another, even if it is idle for so long that it is watched.
func TestConnectionsAreReused(t *testing.T) {
	overAll(t, func(s *site) {
		var conns atomic.Int32
		s.serve(func(_ int, c speaker) {
			conns.Add(1)
			serveAll(c, "hello")
		})
		for i := range 6 {
			s.must(s.request("POST", strings.NewReader("x")), "hello")
			if i%2 == 1 {
				testkit.WaitFor(s.T, "the connection to be watched",
					func() bool { return s.the().Count().Watched == 1 })
			}
		}
		if n := conns.Load(); n != 1 {
			s.Errorf("%d connections", n)
		}
	})
}

// An idle connection is dropped at once if its server closes it, or if an unexpected byte arrives.
// So not even a request that must not be sent twice fails.
func TestClosedIdleConnectionsAreDropped(t *testing.T) {
	for name, end := range map[string]func(speaker){
		"closed":     func(c speaker) { c.Close() },
		"stray byte": func(c speaker) { _, _ = c.Write([]byte("x")) },
	} {
		t.Run(name, func(t *testing.T) {
			overAll(t, func(s *site) {
				ended := make(chan bool)
				s.serve(func(n int, c speaker) {
					if n == 0 {
						receive(c)
						c.respond("hello")
						<-ended
						end(c)
						ended <- true
					}
					serveAll(c, "hello")
				})
				s.must(s.request("GET", nil), "hello")
				ended <- true
				<-ended
				testkit.WaitFor(s.T, "the connection to be evicted", func() bool { return s.the().Count().Idle == 0 })
				s.must(s.request("POST", hidden("x")), "hello")
			})
		})
	}
}

// A request on a kept connection that ends without a response is retried once, if that is safe.
func TestRequestIsRetriedOnlyIfSafe(t *testing.T) {
	long := strings.Repeat("long", 25_000)
	withKey := func(r *http.Request) { r.Header.Set("Idempotency-Key", "1") }
	for _, test := range []struct {
		name, method string
		body         string
		isHidden     bool // the body cannot be read again
		change       func(r *http.Request)
		isRetried    bool
		canRetry     bool // as the error reports, if the request is not retried
		sendsByte    bool // the server sends the first byte of a response
	}{
		{name: "GET", method: "GET", isRetried: true},
		{name: "GET that got a byte", method: "GET", sendsByte: true, canRetry: true},
		{name: "no method", method: "", isRetried: true},
		{name: "HEAD", method: "HEAD", isRetried: true},
		{name: "POST", method: "POST"},
		{name: "PATCH with a body", method: "PATCH", body: "x"},
		{name: "POST with a key", method: "POST", change: withKey, isRetried: true},
		{name: "POST with a key and a body", method: "POST", body: "x", change: withKey, isRetried: true},
		{name: "GET with a long body", method: "GET", body: long, isRetried: true},
		{name: "GET with a body that cannot be read again", method: "GET", body: long, isHidden: true, canRetry: true},
		{name: "GET whose GetBody fails", method: "GET", body: long, isHidden: true, canRetry: true,
			change: func(r *http.Request) {
				r.GetBody = func() (io.ReadCloser, error) { return nil, io.ErrClosedPipe }
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			overAll(t, func(s *site) {
				var broken atomic.Int32
				s.serve(func(n int, c speaker) {
					receive(c)
					c.respond("")
					if _, _, ok := receive(c); ok { // and closes the connection
						if broken.Add(1); test.sendsByte {
							_, _ = c.Write([]byte(s.speaks.begins))
						}
					}
				})
				s.must(s.request("GET", nil), "")
				var body io.Reader = strings.NewReader(test.body)
				if test.isHidden {
					body = hidden(test.body)
				}
				r := s.request(test.method, body)
				if r.Method = test.method; test.change != nil {
					test.change(r)
				}
				_, err := s.do(r)
				if (err == nil) != test.isRetried || broken.Load() != 1 {
					s.Errorf("%v; the request was received %d times without a response", err, broken.Load())
				}
				if e, ok := errors.AsType[*Error](err); err != nil && (!ok || e.CanRetry != test.canRetry) {
					s.Errorf("%#v", err)
				}
			})
		})
	}
}

// A request of which nothing was sent is retried, whatever its method.
func TestUnsentRequestIsRetried(t *testing.T) {
	for _, body := range []string{"", "short", strings.Repeat("long", 10_000)} {
		overAll(t, func(s *site) {
			var fails atomic.Bool
			dial, dials := s.config.Settings.DialContext, 0
			s.config.Settings.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := dial(ctx, network, addr)
				if dials++; dials == 1 {
					return unsendable{nc, &fails}, err
				}
				return nc, err
			}
			s.serve(func(_ int, c speaker) { serveAll(c, "hello") })
			s.must(s.request("GET", nil), "hello")
			fails.Store(true)
			if s.must(s.request("POST", strings.NewReader(body)), "hello"); dials != 2 {
				s.Errorf("%d connections", dials)
			}
		})
	}
}

// unsendable is a connection whose writes may fail, and then write nothing.
type unsendable struct {
	net.Conn
	fails *atomic.Bool
}

func (u unsendable) Write(b []byte) (int, error) {
	if u.fails.Load() {
		return 0, io.ErrClosedPipe
	}
	return u.Conn.Write(b)
}
