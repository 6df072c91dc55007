package engine

import (
	"bytes"
	"context"
	"runtime"
	"runtime/pprof"
	"time"
)

// A goroutine that runs the handlers of one connection after another must not let
// what one does to its goroutine reach the next.

// forgetLabels drops profiler labels that a handler has set and left.
func forgetLabels() { pprof.SetGoroutineLabels(context.Background()) }

// How often a goroutine looks whether a handler has locked its thread: at first often, then half as often each time, as handlers that do
// so mostly do it always. A look takes 9 us, and there are many goroutines where handlers wait.
const (
	checkFirst = 100 * time.Millisecond
	checkEvery = time.Second
)

// hygiene is what a goroutine remembers of having looked.
type hygiene struct {
	checked time.Time
	pause   time.Duration // until the next look
	locked  bool          // a handler has locked the thread
}

// look reports, now and then, whether a handler has left this goroutine locked to
// its thread. Such a thread may have been changed in a way that the next connection's
// handler must not see: the goroutine is to end, and the thread with it. Nothing else
// tells than the head line of a stack trace.
func (h *hygiene) look(now time.Time) bool {
	if now.Sub(h.checked) < h.pause {
		return h.locked
	}
	h.checked, h.pause = now, min(max(checkFirst, 2*h.pause), checkEvery)
	var b [64]byte
	head, _, _ := bytes.Cut(b[:runtime.Stack(b[:], false)], []byte("\n"))
	h.locked = bytes.Contains(head, []byte("locked to thread"))
	return h.locked
}
