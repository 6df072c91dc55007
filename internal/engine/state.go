package engine

import (
	"net/http"
	"time"
)

// States of a netConn (http.ConnState):
//
//	new ──request──▶ active ──response──▶ idle ──request──▶ active
//	active ──Hijack──▶ hijacked
//	new, active, idle ──▶ closed
//
// Shutdown closes a connection that is idle, or that is new for longer than newGrace. The serving
// goroutine makes it active when a request arrives. Both claim it by a compare-and-swap of the
// state, so that no request begins on a connection that is being closed.

// claimForClosing claims a connection that waits for a request. It reports whether it did.
func (c *netConn) claimForClosing() bool {
	if c.state.CompareAndSwap(uint32(http.StateIdle), uint32(http.StateClosed)) {
		return true
	}
	return time.Since(c.opened) > newGrace &&
		c.state.CompareAndSwap(uint32(http.StateNew), uint32(http.StateClosed))
}

// claimNew claims a new connection that will speak a protocol other than HTTP/1. It does not call
// the ConnState hook.
func (c *netConn) claimNew() bool {
	return c.state.CompareAndSwap(uint32(http.StateNew), uint32(http.StateActive))
}

// becomeActive is called when the first bytes of a request have arrived. It reports false if the
// connection is being closed.
func (c *netConn) becomeActive() bool {
	for _, from := range []http.ConnState{http.StateIdle, http.StateNew} {
		if c.state.CompareAndSwap(uint32(from), uint32(http.StateActive)) {
			c.callStateHook(http.StateActive)
			return true
		}
	}
	return false
}

// becomeIdle is called when a response is complete. It reports false if connections are not kept.
func (c *netConn) becomeIdle() bool {
	c.setState(http.StateIdle)
	return c.keepsConnections()
}

func (c *netConn) setState(s http.ConnState) {
	c.state.Store(uint32(s))
	c.callStateHook(s)
}

func (c *netConn) callStateHook(s http.ConnState) {
	if hook := c.settings.ConnState; hook != nil {
		hook(c.nc, s)
	}
}
