package netconn

import (
	"net"
	"net/http"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
)

// States of a Conn (http.ConnState):
//
//	new ──request──▶ active ──response──▶ idle ──request──▶ active
//	active ──Hijack──▶ hijacked
//	new, active, idle ──▶ closed
//
// Shutdown closes a connection that is idle, or that is new for longer than NewGrace. The serving
// goroutine makes it active when a request arrives. Both claim it by a compare-and-swap of the
// state, so that no request begins on a connection that is being closed.

// ClaimForClosing claims a connection that waits for a request. It reports whether it did. isQuiet
// reports whether nothing has arrived on a connection.
func (c *Conn) ClaimForClosing(isQuiet func(net.Conn) bool) bool {
	if s := c.session.Load(); s != nil { // the client must learn of it first
		s.Shutdown()
		s.Flush()
		return false
	}
	if c.state.Load() == uint32(http.StateIdle) && !isQuiet(c.NetConn) && !c.isHookOverdue() {
		return false // the goroutine is about to read a request
	}
	if c.state.CompareAndSwap(uint32(http.StateIdle), uint32(http.StateClosed)) {
		return true
	}
	return time.Since(c.opened) > exchange.NewGrace &&
		c.state.CompareAndSwap(uint32(http.StateNew), uint32(http.StateClosed))
}

// claimNew claims a new connection that will speak a protocol other than HTTP/1. It does not call
// the ConnState hook.
func (c *Conn) claimNew() bool {
	return c.state.CompareAndSwap(uint32(http.StateNew), uint32(http.StateActive))
}

// becomeActive is called when the first bytes of a request have arrived. It reports false if the
// connection is being closed.
func (c *Conn) becomeActive() bool {
	for _, from := range []http.ConnState{http.StateIdle, http.StateNew} {
		if c.state.CompareAndSwap(uint32(from), uint32(http.StateActive)) {
			c.CallStateHook(http.StateActive)
			return true
		}
	}
	return false
}

// becomeIdle is called when a response is complete. It reports false if connections are not kept.
func (c *Conn) becomeIdle() bool {
	c.setState(http.StateIdle)
	return c.config.Exchanges.Server.KeepsConnections()
}

// setState sets the state and calls the ConnState hook. With StateIdle and StateClosed the hook may
// wait for Shutdown.
func (c *Conn) setState(s http.ConnState) {
	c.state.Store(uint32(s))
	if c.config.ConnState == nil {
		return
	}
	c.isOverdue.Store(false)
	c.inEndHook.Store(s == http.StateIdle || s == http.StateClosed)
	c.CallStateHook(s)
	c.inEndHook.Store(false)
}

// isHookOverdue reports whether the hook has been running for StateIdle since Shutdown last looked.
// The request that has arrived meanwhile is then lost, as with net/http.
func (c *Conn) isHookOverdue() bool {
	return c.inEndHook.Load() && !c.isOverdue.CompareAndSwap(false, true)
}

// HoldsUpShutdown reports whether Shutdown waits for the connection. It does not if the connection
// is closed and the hook has not returned.
func (c *Conn) HoldsUpShutdown() bool {
	return c.state.Load() != uint32(http.StateClosed) || !c.inEndHook.Load()
}

// CallStateHook calls the ConnState hook, if there is one.
func (c *Conn) CallStateHook(s http.ConnState) {
	if hook := c.config.ConnState; hook != nil {
		hook(c.NetConn, s)
	}
}
