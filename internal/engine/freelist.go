package engine

import (
	"slices"
	"sync"
	"time"
)

const (
	// maxIdle is how many goroutines of a kind wait for work for as long as it takes, each with
	// its buffers.
	maxIdle = 64

	// surplusTime is how long the others wait. Where hundreds of handlers block at a time, each
	// request would otherwise pay for a goroutine, its stack, and 16 KB of buffers.
	surplusTime = time.Second
)

// idle are those of a kind that wait for work. The last to have worked is the first to
// work again: its stack and its buffers are warm.
type idle[T any] struct {
	mu   sync.Mutex
	all  []*T
	done bool
}

// take returns one that waits, or nil.
func (l *idle[T]) take() *T {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.all)
	if n == 0 {
		return nil
	}
	t := l.all[n-1]
	l.all = l.all[:n-1]
	return t
}

// await has t wait for work from its channel, and returns what it gets. It reports false if t is to
// end instead.
func await[T, W any](l *idle[T], t *T, work <-chan W) (w W, ok bool) {
	surplus, ok := l.add(t)
	if !ok {
		return w, false
	}
	if !surplus {
		w, ok = <-work
		return w, ok
	}
	timer := time.NewTimer(surplusTime)
	defer timer.Stop()
	select {
	case w, ok = <-work:
		return w, ok
	case <-timer.C:
	}
	if l.remove(t) {
		return w, false
	}
	w, ok = <-work // somebody has taken t meanwhile
	return w, ok
}

// add keeps t for later work, and reports whether there are enough without it.
func (l *idle[T]) add(t *T) (surplus, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return false, false
	}
	l.all = append(l.all, t)
	return len(l.all) > maxIdle, true
}

// remove reports whether t was there.
func (l *idle[T]) remove(t *T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.all, t)
	if i < 0 {
		return false
	}
	l.all = slices.Delete(l.all, i, i+1)
	return true
}

// stop returns all that wait. From then on none is kept.
func (l *idle[T]) stop() []*T {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = true
	all := l.all
	l.all = nil
	return all
}
