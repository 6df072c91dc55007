package fcgi_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarehq/tare/fcgi"
)

// A response that ends before the request's body is complete. The body and the connection are
// closed.
func TestResponseEndsBeforeRequestBody(t *testing.T) {
	for _, closes := range []bool{false, true} {
		body := newStuck(true)
		tr := checked(t, &fcgi.Transport{MaxIdleConnsPerHost: 1, Addr: listen(t, "tcp", func(p *peer, _ int) {
			p.head()
			p.respond("\nbody")
			if !closes {
				p.drain()
			}
		})})
		r := newRequest(t, "POST", address, body)
		must(t, tr, r, "body")
		<-body.closed
		if tr.Idle() != 0 {
			t.Error("the connection is kept")
		}
	}
}

// The response of an application that closes without reading the body is received.
func TestResponseToRejectedBodyIsReceived(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		tr := checked(t, &fcgi.Transport{MaxIdleConnsPerHost: 1, Addr: listen(t, network, func(p *peer, _ int) {
			p.head()
			p.respond("Status: 413\n\ntoo large")
			p.Conn.(interface{ CloseWrite() error }).CloseWrite()
			io.CopyN(io.Discard, p, 1<<20) // a part of it
		})})
		resp := must(t, tr, newRequest(t, "PUT", address, newPattern(8<<20)), "too large")
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s", resp.Status)
		}
	}
}

// gated is a connection that reports when a write is done, and returns from it when it is allowed
// to.
type gated struct {
	net.Conn
	wrote chan struct{}
	gate  chan error // the error to return
}

func (g gated) Write(p []byte) (int, error) {
	n, err := g.Conn.Write(p)
	g.wrote <- struct{}{}
	return n, errors.Join(err, <-g.gate)
}

// If the last write returns after the end of the response, the connection is kept then, and only if
// the write succeeds.
func TestConnectionIsKeptAfterLateWrite(t *testing.T) {
	for _, late := range []error{nil, errWanted} {
		dial := piped(t, func(p *peer, _ int) {
			for p.request() != nil {
				p.respond("\nbody")
			}
		})
		g := gated{wrote: make(chan struct{}, 10), gate: make(chan error, 10)}
		dials := 0
		tr := checked(t, &fcgi.Transport{Addr: "pipe:1", MaxIdleConnsPerHost: 1,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				dials++
				g.Conn, _ = dial(ctx, network, addr)
				return g, nil
			}})
		g.gate <- nil // for the head
		must(t, tr, newRequest(t, "POST", address, strings.NewReader(strings.Repeat("body", 5000))), "body")
		for range 2 {
			<-g.wrote
		}
		if tr.Idle() != 0 || tr.Active() != 1 {
			t.Errorf("%d idle, %d active", tr.Idle(), tr.Active())
		}
		g.gate <- late
		eventually(t, "the connection is released", func() bool { return tr.Active() == 0 })
		g.gate <- nil
		must(t, tr, get(t, address), "body")
		if kept := dials == 1; kept != (late == nil) {
			t.Errorf("%v: %d connections", late, dials)
		}
	}
}

// If the last write fails, the connection is not kept, even if the response is complete.
func TestConnectionIsClosedAfterFailedWrite(t *testing.T) {
	body := newClosable(newPattern(20_000))
	dial := piped(t, func(p *peer, _ int) {
		p.request()
		<-body.closed // the sender has stopped
		p.respond("\nbody")
	})
	g := gated{wrote: make(chan struct{}, 3), gate: make(chan error, 3)}
	tr := checked(t, &fcgi.Transport{Addr: "pipe:1", MaxIdleConnsPerHost: 1,
		DialContext: func(ctx context.Context, network, addr string) (_ net.Conn, err error) {
			g.Conn, err = dial(ctx, network, addr)
			return g, err
		}})
	g.gate <- nil       // for the head
	g.gate <- errWanted // for the body
	r := newRequest(t, "POST", address, body)
	r.ContentLength = 20_000
	must(t, tr, r, "body")
	if tr.Active()+tr.Idle() != 0 {
		t.Errorf("%d active, %d idle", tr.Active(), tr.Idle())
	}
}

// A ContentLength without a body is an error.
func TestLengthWithoutBodyFails(t *testing.T) {
	r := newRequest(t, "POST", address, nil)
	r.ContentLength = 5
	if _, err := (&fcgi.Transport{Addr: "x:1"}).RoundTrip(r); err == nil ||
		!strings.Contains(err.Error(), "ContentLength=5") {
		t.Errorf("no body with a length: %v", err)
	}
}

// A slow application slows the body's reader down: no more than one piece is read ahead.
func TestSlowApplicationSlowsBody(t *testing.T) {
	const ahead = 128 << 10
	source := &counter{Reader: newPattern(8 << 20)}
	tr := checked(t, &fcgi.Transport{Addr: "pipe:1", DialContext: piped(t, func(p *peer, _ int) {
		p.head()
		for got := 0; got < 1<<20; {
			piece, _ := p.next()
			got += len(piece.Content)
			if n := int(source.n.Load()); n > got+ahead {
				t.Errorf("%d bytes were read for %d that were received", n, got)
				break
			}
		}
		p.respond("\nenough")
	})})
	must(t, tr, newRequest(t, "POST", address, source), "enough")
}

type counter struct {
	io.Reader
	n atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}
