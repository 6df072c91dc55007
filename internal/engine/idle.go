package engine

import "sync"

// maxIdle is how many goroutines of a kind wait for work, each with its buffers. More
// come and go as they are needed.
const maxIdle = 64

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

// rest keeps one for later work. It reports false if none is wanted.
func (l *idle[T]) rest(t *T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done || len(l.all) >= maxIdle {
		return false
	}
	l.all = append(l.all, t)
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
