package netconn

import (
	"net/http"
	"sync/atomic"
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
	flagWasOverdue = 16 // it also ran when Shutdown last checked
)

func (s *connState) is(state http.ConnState) bool { return s.word.Load()&stateMask == uint32(state) }

// move changes the state if it is from.
func (s *connState) move(from, to http.ConnState) bool {
	for word := s.word.Load(); word&stateMask == uint32(from); word = s.word.Load() {
		if s.word.CompareAndSwap(word, word&^stateMask|uint32(to)) {
			return true
		}
	}
	return false
}

// isHookOverdue reports whether the hook has been running for StateIdle since Shutdown last
// checked. The request that has arrived meanwhile is then lost, as with net/http.
func (s *connState) isHookOverdue() bool {
	return s.word.Load()&flagInHook != 0 && s.word.Or(flagWasOverdue)&flagWasOverdue != 0
}
