package engine

import (
	"slices"
	"sync/atomic"
	"time"
)

const (
	// watchClosely is how often the watcher looks while handlers run on loops that
	// have not earned trust yet; two looks that find the same handler running cost
	// it the lead.
	watchClosely = time.Millisecond
	// watchCalmly is how often it looks otherwise. A route that was quick and begins to hang holds its
	// loop up for one to two times this.
	watchCalmly = 5 * time.Millisecond
	// calmAfter and sleepAfter are how many looks without such a handler, or without
	// any, make it slow down and sleep.
	calmAfter  = 4
	sleepAfter = 10

	// outageStalls routes that stall within outageWindow begin an outage. It lasts for outageShortest,
	// and twice as long as the last one if that has just ended. One route that stalls as often is none:
	// it has left the loops, and on a busy machine the one that has most requests is stopped most often.
	outageStalls   = 4
	outageWindow   = time.Second
	outageShortest = time.Second
	outageLongest  = 32 * time.Second
)

// watcher finds leaders whose handlers take long and has them replaced. It is one
// goroutine for all shards of a server. It sleeps while they have nothing to do.
type watcher struct {
	asleep  atomic.Bool
	calm    atomic.Bool
	hurried atomic.Bool // a handler that is not trusted ran since the last look
	outage  atomic.Bool // handlers run in goroutines of their own
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

// run watches the group's shards until it is stopped.
func (w *watcher) run(g *group) {
	var words sightings
	var outages outages
	ticker := time.NewTicker(watchClosely)
	defer ticker.Stop()
	last := time.Now()
	for idle, quiet := 0, 0; ; {
		select {
		case <-g.stopped:
			return
		case <-w.bell:
			idle, quiet, last = 0, 0, time.Now()
			ticker.Reset(watchClosely)
			continue
		case <-ticker.C:
		}
		now := time.Now()
		late := now.Sub(last) > 2*w.gait()
		last = now
		if quiet++; w.hurried.Swap(false) {
			quiet = 0
		} else if quiet >= calmAfter && w.calm.CompareAndSwap(false, true) {
			ticker.Reset(watchCalmly)
		}
		busy, stalled := words.look(g.allShards(), late)
		w.outage.Store(outages.note(now, stalled))
		if idle++; busy {
			idle = 0
		}
		if idle < sleepAfter {
			continue
		}
		w.calm.Store(false)
		w.asleep.Store(true)
		if busy, _ := words.look(g.allShards(), false); !busy || !w.asleep.CompareAndSwap(true, false) {
			ticker.Stop()
			select {
			case <-g.stopped:
				return
			case <-w.bell:
			}
		}
		idle, quiet, last = 0, 0, time.Now()
		ticker.Reset(watchClosely)
	}
}

// gait returns how often the watcher looks at present.
func (w *watcher) gait() time.Duration {
	if w.calm.Load() {
		return watchCalmly
	}
	return watchClosely
}

// sightings are what the watcher saw of each shard when it looked last.
type sightings []sighting

type sighting struct {
	word    uint64
	excused bool // it has been seen again by a look that was late
}

// look replaces the leaders that do what they did when it looked last, and returns the slots of what
// they do. It reports whether any shard had something to do.
//
// What makes a look late, a processor that is not to be had or a quota that is used up, has kept the
// leader from its work as well: one late look says nothing.
func (all *sightings) look(shards []*shard, late bool) (busy bool, stalled []slotID) {
	for len(*all) < len(shards) {
		*all = append(*all, sighting{})
	}
	for i, s := range shards {
		seen, word := &(*all)[i], s.word.Load()
		serving := word&servingBit != 0
		busy = busy || serving || word != seen.word
		switch {
		case word != seen.word:
			*seen = sighting{word: word}
		case !serving:
		case late && !seen.excused:
			seen.excused = true
		case s.takeLead(word):
			stalled = append(stalled, slotIn(word))
		}
	}
	return busy, stalled
}

// outages decides when there is an outage.
type outages struct {
	recent []stall // one for each slot
	until  time.Time
	lasts  time.Duration // the last one
}

type stall struct {
	slot slotID
	at   time.Time
}

// note takes the slots that have stalled and reports whether there is an outage.
func (o *outages) note(now time.Time, stalled []slotID) bool {
	if now.Before(o.until) {
		return true
	}
	if len(stalled) == 0 {
		return false
	}
	o.recent = slices.DeleteFunc(o.recent, func(s stall) bool {
		return now.Sub(s.at) > outageWindow || slices.Contains(stalled, s.slot)
	})
	for _, slot := range slices.Compact(slices.Sorted(slices.Values(stalled))) {
		o.recent = append(o.recent, stall{slot, now})
	}
	if len(o.recent) < outageStalls {
		return false
	}
	if recurs := now.Sub(o.until) < max(o.lasts, outageWindow); recurs {
		o.lasts = min(2*o.lasts, outageLongest)
	} else {
		o.lasts = outageShortest
	}
	o.until, o.recent = now.Add(o.lasts), nil
	return true
}
