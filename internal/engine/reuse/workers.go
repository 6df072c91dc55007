// Package reuse keeps goroutines that have finished their work, because their stacks and buffers
// are worth keeping, and removes what a handler has left behind in them.
package reuse

import (
	"context"
	"runtime/pprof"
	"slices"
	"sync"
	"time"
)

const (
	// MaxAge is how long a goroutine runs handlers before another replaces it. A handler may have
	// locked its goroutine to the thread, and changed the thread in a way that other handlers must
	// not see. The thread ends with such a goroutine. Only a stack trace, which takes 9 µs, shows
	// which one is locked.
	MaxAge = 500 * time.Millisecond

	// maxFree is how many goroutines of a kind wait for work without a time limit.
	maxFree = 64

	// surplusTimeout is how long the others wait at most. If hundreds of handlers block at a time,
	// each request would otherwise pay for a new goroutine and its stack.
	surplusTimeout = time.Second
)

// ResetLabels removes profiler labels that a handler has set, which the next one must not see.
func ResetLabels() { pprof.SetGoroutineLabels(context.Background()) }

// Workers are goroutines that run a function for one piece of work after another. One that is free
// has a stack that has already grown to what handlers need. Each has a state, which is zero before
// its first work.
type Workers[State, Work any] struct {
	run func(*State, Work) (now time.Time)

	mu      sync.Mutex
	free    []*worker[State, Work] // the last to finish is the first to receive more: the cache has its stack
	trims   bool                   // endSurplus will be called
	stopped bool
}

type worker[State, Work any] struct {
	state State
	next  chan Work
}

// NewWorkers returns workers without a goroutine. run returns the approximate time at its end.
func NewWorkers[State, Work any](run func(*State, Work) (now time.Time)) *Workers[State, Work] {
	return &Workers[State, Work]{run: run}
}

// Run makes a worker run the function.
func (s *Workers[State, Work]) Run(v Work) {
	s.mu.Lock()
	n := len(s.free)
	if n == 0 {
		s.mu.Unlock()
		go s.work(&worker[State, Work]{next: make(chan Work, 1)}, v)
		return
	}
	w := s.free[n-1]
	s.free = s.free[:n-1]
	s.mu.Unlock()
	w.next <- v
}

// work runs the function until the worker is no longer needed. Goexit in a handler ends it, too.
func (s *Workers[State, Work]) work(w *worker[State, Work], v Work) {
	ResetLabels() // labels of the handler whose goroutine started this one
	began := time.Now()
	for ok := true; ok; v, ok = s.await(w) {
		now := s.run(&w.state, v)
		ResetLabels()
		if now.Sub(began) > MaxAge {
			return
		}
	}
}

// await waits for work. It reports false if the worker must end instead.
func (s *Workers[State, Work]) await(w *worker[State, Work]) (v Work, ok bool) {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return v, false
	}
	s.free = append(s.free, w)
	if len(s.free) > maxFree && !s.trims {
		s.trims = true
		time.AfterFunc(surplusTimeout, s.endSurplus)
	}
	s.mu.Unlock()
	v, ok = <-w.next
	return v, ok
}

func (s *Workers[State, Work]) endSurplus() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trims = false
	s.end(max(0, len(s.free)-maxFree))
}

// end ends the n workers that have been free longest. Its caller holds mu.
func (s *Workers[State, Work]) end(n int) {
	for _, w := range s.free[:n] {
		close(w.next)
	}
	s.free = slices.Delete(s.free, 0, n)
}

// Stop ends the free workers now, and the others when the function has returned.
func (s *Workers[State, Work]) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.end(len(s.free))
}
