package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// netConn is a connection on the portable path: any net.Conn, served by a goroutine
// of its own, which runs the handlers, too.
type netConn struct {
	conn
	opened    time.Time
	idleSince time.Time
	state     atomic.Uint32 // an http.ConnState
	taken     bool          // by a handler
	pooled    *[]byte       // what in came from, to be given back
	watching  *watch
}

func newNetConn(p *plan, nc net.Conn, ctx context.Context) *netConn {
	c := &netConn{conn: conn{plan: p, nc: nc, ctx: ctx}, opened: time.Now()}
	c.link = c
	c.pooled = p.buffers.Get().(*[]byte)
	c.in = *c.pooled
	c.template = newTemplate()
	if a := nc.RemoteAddr(); a != nil {
		c.template.RemoteAddr = a.String()
	}
	return c
}

func newTemplate() *http.Request {
	return &http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
}

// serve runs the connection from its first byte to its end.
func (c *netConn) serve() {
	defer c.close()
	if !c.shakeHands() || !c.speaksHTTP1() {
		return
	}
	c.idleSince = c.opened
	for first := true; ; first = false {
		if !c.readHead(first) {
			return
		}
		x := c.begin()
		if x == nil || !c.exchange(x) {
			return
		}
		c.idleSince = time.Now()
		if !c.becomeIdle() {
			return
		}
	}
}

// close ends the connection, whatever ended its goroutine: a return, a handler's
// panic, or runtime.Goexit in a handler.
func (c *netConn) close() {
	c.abort(recover())
	if !c.taken {
		c.nc.Close()
		c.release()
		c.report(http.StateClosed)
		c.forget(c)
	}
}

// release gives the input buffer back. Nothing of it was shown to a handler.
func (c *netConn) release() {
	if c.pooled == nil {
		return
	}
	poison(*c.pooled)
	c.buffers.Put(c.pooled)
	c.pooled, c.in = nil, nil
}

// context implements link.
func (c *netConn) context() context.Context { return c.ctx }

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
	c.request.Reset()
	if c.next == c.end {
		c.shrink()
		if !c.await(first) {
			return false
		}
	}
	if !c.becomeActive() {
		return false
	}
	bounded := false
	if c.read > 0 {
		c.began = c.beginning(first)
	}
	for {
		if complete, ok := c.head(); complete || !ok {
			return ok
		}
		if !bounded { // only a head that comes in pieces costs a deadline
			bounded = true
			c.setReadDeadline(c.beginning(first).Add(c.headTime))
		}
		switch err := c.fill(); {
		case errors.Is(err, io.EOF):
			c.refuse(http.StatusBadRequest, "head cut off")
			return false
		case err != nil:
			return false
		}
	}
}

// shrink empties the input buffer and trims the others.
func (c *netConn) shrink() {
	c.next, c.end = 0, 0
	if len(c.in) > inSize {
		c.in = *c.pooled
	}
	c.trim()
}

// beginning is when the time for a head starts: now, or, for a connection's first
// request, when it was opened.
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
		deadline = c.idleSince.Add(bound)
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
