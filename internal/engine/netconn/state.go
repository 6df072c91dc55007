package netconn

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/poll"
)

// connState is the state of a Conn, in one word: an http.ConnState, and flags.
//
//	new ──request──▶ active ──response──▶ idle ──request──▶ active
//	active ──Hijack──▶ hijacked
//	new, active, idle ──▶ closed
//
// Shutdown closes a connection that is idle, or that is new for longer than NewGrace. The serving
// goroutine makes it active when a request arrives. Both claim it by a compare-and-swap of the
// state, so that no request begins on a connection that is being closed.
type connState struct{ word atomic.Uint32 }

const (
	stateMask      = 7
	flagInHook     = 8  // the ConnState hook runs for StateIdle or StateClosed
	flagWasOverdue = 16 // it also did when Shutdown last looked
)

func (s *connState) is(state http.ConnState) bool { return s.word.Load()&stateMask == uint32(state) }

// move changes the state, unless it is not from.
func (s *connState) move(from, to http.ConnState) bool {
	for word := s.word.Load(); word&stateMask == uint32(from); word = s.word.Load() {
		if s.word.CompareAndSwap(word, word&^stateMask|uint32(to)) {
			return true
		}
	}
	return false
}

// isHookOverdue reports whether the hook has been running for StateIdle since Shutdown last looked.
// The request that has arrived meanwhile is then lost, as with net/http.
func (s *connState) isHookOverdue() bool {
	return s.word.Load()&flagInHook != 0 && s.word.Or(flagWasOverdue)&flagWasOverdue != 0
}

// ClaimForClosing claims a connection that waits for a request. It reports whether it did.
func (c *Conn) ClaimForClosing() bool {
	if s := c.session.Load(); s != nil { // the client must learn of it first
		s.Shutdown()
		s.Flush()
		return false
	}
	if c.state.is(http.StateIdle) && !c.isQuiet() && !c.state.isHookOverdue() {
		return false // the goroutine is about to read a request
	}
	if c.state.move(http.StateIdle, http.StateClosed) {
		return true
	}
	return time.Since(c.opened) > exchange.NewGrace && c.state.move(http.StateNew, http.StateClosed)
}

// isQuiet reports whether nothing has arrived that was not read. It is true if that is not known.
func (c *Conn) isQuiet() bool {
	quiet := true
	control(c.NetConn, func(fd int) { quiet = poll.Quiet(fd) })
	return quiet
}

// becomeActive is called when the first bytes of a request have arrived. It reports false if the
// connection is being closed.
func (c *Conn) becomeActive() bool {
	isClaimed := c.state.move(http.StateIdle, http.StateActive) || c.state.move(http.StateNew, http.StateActive)
	if isClaimed {
		c.CallStateHook(http.StateActive)
	}
	return isClaimed
}

// becomeIdle is called when a response is complete. It reports false if connections are not kept.
func (c *Conn) becomeIdle() bool {
	c.setState(http.StateIdle)
	return c.config.Exchanges.Server.KeepsConnections()
}

// setState sets the state and calls the ConnState hook. With StateIdle and StateClosed the hook may
// wait for Shutdown.
func (c *Conn) setState(s http.ConnState) {
	word := uint32(s)
	if c.config.ConnState == nil {
		c.state.word.Store(word)
		return
	}
	if s == http.StateIdle || s == http.StateClosed {
		word |= flagInHook
	}
	c.state.word.Store(word)
	c.CallStateHook(s)
	c.state.word.And(stateMask)
}

// HoldsUpShutdown reports whether Shutdown waits for the connection. It does not if the connection
// is closed and the hook has not returned.
func (c *Conn) HoldsUpShutdown() bool {
	return c.state.word.Load()&^flagWasOverdue != uint32(http.StateClosed)|flagInHook
}

// CallStateHook calls the ConnState hook, if there is one.
func (c *Conn) CallStateHook(s http.ConnState) {
	if hook := c.config.ConnState; hook != nil {
		hook(c.NetConn, s)
	}
}
