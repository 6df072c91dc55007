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

// MaxAge is how long a goroutine runs handlers before another replaces it. A handler may have locked
// its goroutine to the thread, and changed the thread in a way that other handlers must not see. The
// thread ends with such a goroutine. Only a stack trace, which takes 9 µs, shows which one is locked.
const MaxAge = 500 * time.Millisecond
