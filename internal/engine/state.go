package engine

import (
	"net/http"
	"time"
)

// A connection's state is new, then active and idle by turns, then closed or
// hijacked. Shutdown closes a connection that waits; the connection's goroutine
// makes it active when a request arrives. Both claim it by exchanging the state,
// so that no request is begun on a connection that is being closed.

// claimForClosing claims a connection that is waiting for a request.
func (c *netConn) claimForClosing() bool {
	if c.state.CompareAndSwap(uint32(http.StateIdle), uint32(http.StateClosed)) {
		return true
	}
	return time.Since(c.opened) > newGrace &&
		c.state.CompareAndSwap(uint32(http.StateNew), uint32(http.StateClosed))
}

// claim claims a new connection that will speak something else than HTTP/1. It tells
// nobody.
func (c *netConn) claim() bool {
	return c.state.CompareAndSwap(uint32(http.StateNew), uint32(http.StateActive))
}

// becomeActive is called when the first bytes of a request are there.
func (c *netConn) becomeActive() bool {
	for _, from := range []http.ConnState{http.StateIdle, http.StateNew} {
		if c.state.CompareAndSwap(uint32(from), uint32(http.StateActive)) {
			c.tell(http.StateActive)
			return true
		}
	}
	return false
}

// becomeIdle is called when a response is done. It reports false when the server
// is stopping.
func (c *netConn) becomeIdle() bool {
	c.report(http.StateIdle)
	return c.reuses()
}

func (c *netConn) report(s http.ConnState) {
	c.state.Store(uint32(s))
	c.tell(s)
}

func (c *netConn) tell(s http.ConnState) {
	if hook := c.settings.ConnState; hook != nil {
		hook(c.nc, s)
	}
}
