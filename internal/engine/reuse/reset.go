package reuse

import (
	"bytes"
	"context"
	"runtime"
	"runtime/pprof"
	"time"
)

// A goroutine runs the handlers of one connection after another. Changes that a handler makes to
// its goroutine must not affect the next handler.

// ResetLabels removes profiler labels that a handler has set.
func ResetLabels() { pprof.SetGoroutineLabels(context.Background()) }

// Intervals between two checks whether a handler has locked the thread. They double, because
// handlers that lock it mostly do so always. A check takes 9 µs, and there are many goroutines
// where handlers block.
const (
	firstCheckInterval = 100 * time.Millisecond
	maxCheckInterval   = time.Second
)

// ThreadCheck is the state of these checks in one goroutine.
type ThreadCheck struct {
	lastCheck time.Time
	interval  time.Duration // until the next check
	Locked    bool          // a handler has locked its goroutine to the thread
}

// IsLocked reports whether a handler has left this goroutine locked to its thread; it checks only
// at intervals. The handler may have changed such a thread in a way that the next handler must not
// see. The goroutine must therefore end, and the thread with it. Only the first line of a stack
// trace shows the lock.
func (h *ThreadCheck) IsLocked(now time.Time) bool {
	if now.Sub(h.lastCheck) < h.interval {
		return h.Locked
	}
	h.lastCheck, h.interval = now, min(max(firstCheckInterval, 2*h.interval), maxCheckInterval)
	var b [64]byte
	head, _, _ := bytes.Cut(b[:runtime.Stack(b[:], false)], []byte("\n"))
	h.Locked = bytes.Contains(head, []byte("locked to thread"))
	return h.Locked
}
