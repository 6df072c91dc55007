package reuse

import (
	"context"
	"runtime/pprof"
	"time"
)

// A goroutine runs the handlers of one connection after another. Changes that a handler makes to
// its goroutine must not affect the next handler.

// ResetLabels removes profiler labels that a handler has set.
func ResetLabels() { pprof.SetGoroutineLabels(context.Background()) }

// maxAge is how long a goroutine runs handlers before another replaces it. A handler may have locked
// its goroutine to the thread, and changed the thread in a way that other handlers must not see. If
// such a goroutine ends, the thread ends, too. Whether it is locked cannot be read at this price: a
// goroutine for 0.5 s.
const maxAge = 500 * time.Millisecond

// Age is for how long a goroutine has run handlers.
type Age struct{ began time.Time }

// IsOver reports whether the goroutine must end. Its first call begins the time.
func (a *Age) IsOver(now time.Time) bool {
	if a.began.IsZero() {
		a.began = now
	}
	return now.Sub(a.began) > maxAge
}
