package h2

import "sync/atomic"

// Turn decides which goroutine serves a session. Its states are numbers that only grow:
//
//	even, held ──Enter──▶ odd, in a handler ──Leave──▶ even, held by the same goroutine
//	odd, in a handler ──TakeOver──▶ even, held by another goroutine
//
// While the holder runs a handler, which may block, another goroutine may take the turn over. The
// first one notices when Leave fails. No number is used twice, so that it cannot mistake the turn
// of a later holder for its own.
type Turn struct{ word atomic.Uint64 }

// Enter is called by the holder before it runs a handler.
func (t *Turn) Enter() (token uint64) { return t.word.Add(1) }

// Leave is called after the handler has returned. It reports whether the caller still holds the
// turn.
func (t *Turn) Leave(token uint64) bool { return t.word.CompareAndSwap(token, token+1) }

// IsHeld reports whether the turn is still that of the holder that received token from Enter.
func (t *Turn) IsHeld(token uint64) bool { return t.word.Load() == token }

// TakeOver takes the turn over from a holder that runs a handler. It reports whether the caller now
// holds the turn.
func (t *Turn) TakeOver() bool {
	word := t.word.Load()
	return word%2 == 1 && t.word.CompareAndSwap(word, word+1)
}
