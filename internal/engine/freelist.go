package engine

import (
	"slices"
	"sync"
	"time"
)

const (
	// maxFree is how many goroutines of a kind wait for work without a time limit, each with
	// its buffers.
	maxFree = 64

	// surplusTimeout is how long the others wait. If hundreds of handlers block at a time, each
	// request would otherwise pay for a new goroutine, its stack, and 16 KB of buffers.
	surplusTimeout = time.Second
)

// freeList holds the goroutines of a kind that wait for work. The last to finish work is the first
// to receive more, because its stack and its buffers are in the cache.
type freeList[T any] struct {
	mu      sync.Mutex
	free    []*T
	stopped bool
}

// get removes and returns an element, or nil.
func (l *freeList[T]) get() *T {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.free)
	if n == 0 {
		return nil
	}
	t := l.free[n-1]
	l.free = l.free[:n-1]
	return t
}

// awaitWork adds t to the list, waits for work on its channel, and returns the work. It reports
// false if t must end instead.
func awaitWork[T, W any](l *freeList[T], t *T, work <-chan W) (w W, ok bool) {
	surplus, ok := l.add(t)
	if !ok {
		return w, false
	}
	if !surplus {
		w, ok = <-work
		return w, ok
	}
	timer := time.NewTimer(surplusTimeout)
	defer timer.Stop()
	select {
	case w, ok = <-work:
		return w, ok
	case <-timer.C:
	}
	if l.remove(t) {
		return w, false
	}
	w, ok = <-work // get has removed t meanwhile
	return w, ok
}

// add adds t to the list. surplus reports whether there are enough without it, and ok whether the
// list is still in use.
func (l *freeList[T]) add(t *T) (surplus, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return false, false
	}
	l.free = append(l.free, t)
	return len(l.free) > maxFree, true
}

// remove removes t and reports whether it was in the list.
func (l *freeList[T]) remove(t *T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.free, t)
	if i < 0 {
		return false
	}
	l.free = slices.Delete(l.free, i, i+1)
	return true
}

// stop returns all elements. From then on add fails.
func (l *freeList[T]) stop() []*T {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	all := l.free
	l.free = nil
	return all
}
