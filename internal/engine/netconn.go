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

// netConn is a connection of the goroutine path: any net.Conn. A goroutine serves it to its end,
// waits for its input and runs its handlers.
type netConn struct {
	*conn // serves it; the fields below belong to the connection itself
	*serveConfig
	nc  net.Conn
	ctx context.Context

	prevConn, nextConn *netConn // of the server's list; guarded by its mu

	opened        time.Time
	requests      int           // counted by CountRequest
	state         atomic.Uint32 // an http.ConnState; see state.go
	handedOff     bool          // to a handler or to net/http
	watch         *departureWatch
	sendDeadlines sendDeadlines
}

func newNetConn(p *serveConfig, nc net.Conn, ctx context.Context) *netConn {
	return &netConn{serveConfig: p, nc: nc, ctx: ctx, opened: time.Now()}
}

// attach makes the conn "to" serve the connection.
func (c *netConn) attach(to *conn) {
	c.conn = to
	to.serveConfig, to.nc, to.ctx, to.transport = c.serveConfig, c.nc, c.ctx, c
	to.readDeadline = time.Time{}
	to.setSendTimeout(c.defaultSendTimeout)
	to.template.TLS, to.template.RemoteAddr = nil, ""
	if a := c.nc.RemoteAddr(); a != nil {
		to.template.RemoteAddr = a.String()
	}
	if to.inBuffer == nil {
		to.inBuffer = make([]byte, inSize)
		to.in = to.inBuffer
	}
}

// serve serves the connection from its first byte to its end.
func (c *netConn) serve() {
	defer c.close()
	if !c.handshakeTLS() || !c.selectProtocol() {
		return
	}
	for first := true; ; first = false {
		if !c.readHead(first) {
			return
		}
		x := c.codec.beginExchange(c.conn)
		if x == nil || !c.runExchange(x) || !c.becomeIdle() {
			return
		}
		c.codec.nextRequest(c.conn)
	}
}

// close ends the connection after a return, a handler's panic, or runtime.Goexit in a handler.
func (c *netConn) close() {
	c.abortExchange(recover())
	if !c.handedOff {
		if tc, ok := c.nc.(*tls.Conn); ok && c.writeErr != nil {
			// else Close waits up to five seconds to send an alert that the client does
			// not read
			tc.NetConn().Close()
		}
		c.nc.Close()
		c.setState(http.StateClosed)
		c.untrack(c)
	}
}

// releaseBuffer drops the input buffer, because the goroutine of a hijacked connection may run for
// long. No handler has seen the buffer.
func (c *netConn) releaseBuffer() {
	poison(c.inBuffer)
	c.inBuffer, c.in, c.next, c.end = nil, nil, 0, 0
}

// context implements transport.
func (c *netConn) context() context.Context { return c.ctx }

// Opened implements connection.Info.
func (c *netConn) Opened() time.Time { return c.opened }

// CountRequest implements connection.Info.
func (c *netConn) CountRequest() int {
	c.requests++
	return c.requests
}

// raw implements transport.
func (c *netConn) raw() net.Conn { return c.nc }

// hijack implements transport.
func (c *netConn) hijack() (net.Conn, error) {
	if err := c.nc.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	c.handedOff = true
	c.releaseBuffer()
	c.setState(http.StateHijacked)
	c.untrack(c)
	return c.nc, nil
}

// readHead waits for a request and reads its head into c.request. It responds to a malformed head
// itself. It reports whether there is a request to serve.
func (c *netConn) readHead(first bool) bool {
	for {
		if c.next == c.end {
			c.next, c.end, c.in = 0, 0, c.inBuffer
			c.trim()
			if !c.awaitInput(first) {
				return false
			}
		}
		if !c.becomeActive() {
			return false
		}
		if complete, ok := c.receiveHead(first); complete || !ok {
			return ok
		}
		if !c.becomeIdle() { // it received only records about the connection
			return false
		}
	}
}

// receiveHead reads until a head is complete, or until nothing that has arrived is part of a head.
func (c *netConn) receiveHead(first bool) (complete, ok bool) {
	bounded := false
	if c.readTimeout > 0 {
		c.requestStart = c.timeoutStart(first)
	}
	for {
		complete, ok := c.codec.parseHead(c.conn)
		if !ok {
			return false, false
		}
		// replies to records before the request; its handler may block
		if len(c.out) > 0 && c.flush() != nil {
			return false, false
		}
		if complete {
			return true, true
		}
		if c.next == c.end && !c.fcgi.Pending() {
			return false, true
		}
		if !bounded { // a head that arrives whole costs no deadline
			bounded = true
			c.setReadDeadline(c.timeoutStart(first).Add(c.headTimeout))
		}
		switch err := c.fill(); {
		case errors.Is(err, io.EOF):
			c.refuse(http.StatusBadRequest, "incomplete request head")
			return false, false
		case isTimeout(err):
			c.reportLateHead(http.StatusRequestTimeout)
			return false, false
		case err != nil:
			c.reportLateHead(http.StatusBadRequest)
			return false, false
		}
	}
}

// timeoutStart returns when the timeout for the next input starts: now, or, for a connection's
// first request, when it was opened.
func (c *netConn) timeoutStart(first bool) time.Time {
	if first {
		return c.opened
	}
	return time.Now()
}

// awaitInput waits for the first bytes of a request. For a connection's first request the head's
// timeout applies, for later ones the idle timeout.
func (c *netConn) awaitInput(first bool) bool {
	timeout := c.idleTimeout
	if first {
		timeout = c.headTimeout
	}
	var deadline time.Time
	if timeout > 0 {
		deadline = c.timeoutStart(first).Add(timeout)
	}
	// Setting a deadline costs more than reading the clock. A deadline that is at most an
	// eighth of the timeout too early is kept, and corrected if it expires.
	if slack := deadline.Sub(c.readDeadline); slack < 0 || slack > timeout/8 {
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
