package reuse

import (
	"slices"
	"sync"
	"time"
)

const (
	// maxFree is how many goroutines of a kind wait for work without a time limit.
	maxFree = 64

	// surplusTimeout is how long the others wait. If hundreds of handlers block at a time, each
	// request would otherwise pay for a new goroutine and its stack.
	surplusTimeout = time.Second
)

// FreeList holds the goroutines of a kind that wait for work. The last to finish work is the first
// to receive more, because its stack is in the cache.
type FreeList[T any] struct {
	mu      sync.Mutex
	Free    []*T
	stopped bool
}

// Get removes and returns an element, or nil.
func (l *FreeList[T]) Get() *T {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.Free)
	if n == 0 {
		return nil
	}
	t := l.Free[n-1]
	l.Free = l.Free[:n-1]
	return t
}

// AwaitWork adds t to the list, waits for work on its channel, and returns the work. It reports
// false if t must end instead.
func AwaitWork[T, W any](l *FreeList[T], t *T, work <-chan W) (w W, ok bool) {
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
	w, ok = <-work // Get has removed t meanwhile
	return w, ok
}

// add adds t to the list. surplus reports whether there are enough without it, and ok whether the
// list is still in use.
func (l *FreeList[T]) add(t *T) (surplus, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return false, false
	}
	l.Free = append(l.Free, t)
	return len(l.Free) > maxFree, true
}

// remove removes t and reports whether it was in the list.
func (l *FreeList[T]) remove(t *T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.Free, t)
	if i < 0 {
		return false
	}
	l.Free = slices.Delete(l.Free, i, i+1)
	return true
}

// Stop returns all elements. From then on add fails.
func (l *FreeList[T]) Stop() []*T {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	all := l.Free
	l.Free = nil
	return all
}
