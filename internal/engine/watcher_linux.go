package engine

import (
	"sync/atomic"
	"time"
)

const (
	// watchClosely is how often the watcher looks while handlers run on loops that
	// have not earned trust yet; two looks that find the same handler running cost
	// it the lead.
	watchClosely = time.Millisecond
	// watchCalmly is how often it looks otherwise.
	watchCalmly = 10 * time.Millisecond
	// calmAfter and sleepAfter are how many looks without such a handler, or without
	// any, make it slow down and sleep.
	calmAfter  = 4
	sleepAfter = 10
)

// watcher finds leaders whose handlers take long and has them replaced. It is one
// goroutine for all shards of a server. It sleeps while they have nothing to do.
type watcher struct {
	asleep  atomic.Bool
	calm    atomic.Bool
	hurried atomic.Bool // a handler that is not trusted ran since the last look
	bell    chan struct{}
}

// wake is called by loops that have work.
func (w *watcher) wake() {
	if w.asleep.Load() && w.asleep.CompareAndSwap(true, false) {
		w.ring()
	}
}

// hurry is called before a loop runs a handler that is not trusted.
func (w *watcher) hurry() {
	if !w.hurried.Load() {
		w.hurried.Store(true)
		if w.calm.Load() && w.calm.CompareAndSwap(true, false) {
			w.ring()
		}
	}
}

func (w *watcher) ring() {
	select {
	case w.bell <- struct{}{}:
	default:
	}
}

// run watches shards until stopped is closed.
func (w *watcher) run(shards []*shard, stopped <-chan struct{}) {
	seen := make([]uint64, len(shards))
	ticker := time.NewTicker(watchClosely)
	defer ticker.Stop()
	for idle, quiet := 0, 0; ; {
		select {
		case <-stopped:
			return
		case <-w.bell:
			idle, quiet = 0, 0
			ticker.Reset(watchClosely)
			continue
		case <-ticker.C:
		}
		if quiet++; w.hurried.Swap(false) {
			quiet = 0
		} else if quiet == calmAfter && w.calm.CompareAndSwap(false, true) {
			ticker.Reset(watchCalmly)
		}
		if idle++; look(shards, seen) {
			idle = 0
		}
		if idle == sleepAfter {
			ticker.Stop()
			w.calm.Store(false)
			w.asleep.Store(true)
			select {
			case <-stopped:
				return
			case <-w.bell:
			}
			idle, quiet = 0, 0
			ticker.Reset(watchClosely)
		}
	}
}

// look replaces the leaders that serve what they served when it looked last, and
// reports whether any shard had something to do.
func look(shards []*shard, seen []uint64) (busy bool) {
	for i, s := range shards {
		word := s.word.Load()
		serving := word&1 == 1
		if word == seen[i] && serving && s.word.CompareAndSwap(word, promoted(word)) {
			s.promote()
		}
		busy = busy || serving || word != seen[i]
		seen[i] = word
	}
	return busy
}
