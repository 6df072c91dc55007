package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// netConn is a connection on the portable path: any net.Conn. A goroutine serves it
// to its end, waits for its input and runs its handlers.
type netConn struct {
	*conn // that serves it; the fields below are the connection's for ever
	*plan
	nc  net.Conn
	ctx context.Context

	before, after *netConn // of the server's, guarded by its mu

	opened   time.Time
	requests int           // that were counted
	state    atomic.Uint32 // an http.ConnState
	taken    bool          // by a handler
	watching *watch
	sends    sendBound
}

func newNetConn(p *plan, nc net.Conn, ctx context.Context) *netConn {
	return &netConn{plan: p, nc: nc, ctx: ctx, opened: time.Now()}
}

// attach makes k the connection that c serves.
func (c *netConn) attach(to *conn) {
	c.conn = to
	to.plan, to.nc, to.ctx, to.link = c.plan, c.nc, c.ctx, c
	to.readDeadline = time.Time{}
	to.setSendTimeout(c.stallTime)
	to.template.TLS, to.template.RemoteAddr = nil, ""
	if a := c.nc.RemoteAddr(); a != nil {
		to.template.RemoteAddr = a.String()
	}
	if to.kept == nil {
		to.kept = make([]byte, inSize)
		to.in = to.kept
	}
}

// serve runs the connection from its first byte to its end.
func (c *netConn) serve() {
	defer c.close()
	if !c.shakeHands() || !c.speaksHTTP1() {
		return
	}
	for first := true; ; first = false {
		if !c.readHead(first) {
			return
		}
		x := c.protocol.begin(c.conn)
		if x == nil || !c.exchange(x) || !c.becomeIdle() {
			return
		}
		c.protocol.next(c.conn)
	}
}

// close ends the connection, whatever ended its serving: a return, a handler's
// panic, or runtime.Goexit in a handler.
func (c *netConn) close() {
	c.abort(recover())
	if !c.taken {
		if tc, ok := c.nc.(*tls.Conn); ok && c.writeErr != nil {
			tc.NetConn().Close() // else Close waits for seconds to send an alert that the client does not take
		}
		c.nc.Close()
		c.report(http.StateClosed)
		c.forget(c)
	}
}

// release drops the input buffer: whoever took the connection over may keep its
// goroutine for long. Nothing of it was shown to a handler.
func (c *netConn) release() {
	poison(c.kept)
	c.kept, c.in, c.next, c.end = nil, nil, 0, 0
}

// context implements link.
func (c *netConn) context() context.Context { return c.ctx }

// Opened implements connection.Info.
func (c *netConn) Opened() time.Time { return c.opened }

// CountRequest implements connection.Info.
func (c *netConn) CountRequest() int {
	c.requests++
	return c.requests
}

// raw implements link.
func (c *netConn) raw() net.Conn { return c.nc }

// takeOver implements link.
func (c *netConn) takeOver() (net.Conn, error) {
	if err := c.nc.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	c.taken = true
	c.release()
	c.report(http.StateHijacked)
	c.forget(c)
	return c.nc, nil
}

// readHead waits for a request and reads its head into c.request. It answers a
// malformed one itself and reports whether there is one to serve.
func (c *netConn) readHead(first bool) bool {
	for {
		if c.next == c.end {
			c.next, c.end, c.in = 0, 0, c.kept
			c.trim()
			if !c.await(first) {
				return false
			}
		}
		if !c.becomeActive() {
			return false
		}
		if complete, ok := c.receiveHead(first); complete || !ok {
			return ok
		}
		if !c.becomeIdle() { // what came was about the connection
			return false
		}
	}
}

// receiveHead reads on until a head is complete, or nothing that has arrived is part of one.
func (c *netConn) receiveHead(first bool) (complete, ok bool) {
	bounded := false
	if c.read > 0 {
		c.began = c.beginning(first)
	}
	for {
		complete, ok := c.protocol.head(c.conn)
		if !ok {
			return false, false
		}
		if len(c.out) > 0 && c.flush() != nil { // replies to records before the request: its handler may wait
			return false, false
		}
		if complete {
			return true, true
		}
		if c.next == c.end && !c.params.Pending() {
			return false, true
		}
		if !bounded { // only a head that comes in pieces costs a deadline
			bounded = true
			c.setReadDeadline(c.beginning(first).Add(c.headTime))
		}
		switch err := c.fill(); {
		case errors.Is(err, io.EOF):
			c.refuse(http.StatusBadRequest, "head cut off")
			return false, false
		case isTimeout(err):
			c.reportLate(http.StatusRequestTimeout)
			return false, false
		case err != nil:
			c.reportLate(http.StatusBadRequest)
			return false, false
		}
	}
}

// beginning is when the time for what is next to arrive starts: now, or, for a
// connection's first request, when it was opened.
func (c *netConn) beginning(first bool) time.Time {
	if first {
		return c.opened
	}
	return time.Now()
}

// await waits for the first bytes of a request. On a connection's first request
// the head's time has begun, on later ones the connection is idle.
func (c *netConn) await(first bool) bool {
	bound := c.idle
	if first {
		bound = c.headTime
	}
	var deadline time.Time
	if bound > 0 {
		deadline = c.beginning(first).Add(bound)
	}
	// Setting a deadline costs more than a look at the clock. One that is at most
	// an eighth too early is left, and put right should it strike.
	if slack := deadline.Sub(c.readDeadline); slack < 0 || slack > bound/8 {
		c.setReadDeadline(deadline)
	}
	for {
		err := c.fill()
		if err == nil {
			return true
		}
		if !isTimeout(err) || deadline.IsZero() || !time.Now().Before(deadline) {
			return false
		}
		c.setReadDeadline(deadline)
	}
}

func isTimeout(err error) bool {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}
