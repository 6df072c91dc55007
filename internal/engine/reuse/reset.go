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
// its goroutine to the thread, and changed the thread in a way that other handlers must not see. The
// thread ends with such a goroutine. Only a stack trace, which takes 9 µs, shows which one is locked.
const maxAge = 500 * time.Millisecond

// Age measures for how long a goroutine has run handlers.
type Age struct{ began time.Time }

// IsOver reports whether the goroutine must end. Its first call begins the time.
func (a *Age) IsOver(now time.Time) bool {
	if a.began.IsZero() {
		a.began = now
	}
	return now.Sub(a.began) > maxAge
}
