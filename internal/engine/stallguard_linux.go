package engine

import (
	"slices"
	"sync/atomic"
	"time"
)

const (
	// fastInterval is the interval between checks while loops run handlers that are not yet
	// trusted. A handler that two checks find running costs its runner the lead.
	fastInterval = time.Millisecond
	// slowInterval is the interval otherwise. A route that was quick and begins to hang holds
	// up its loop for one to two of these.
	slowInterval = 5 * time.Millisecond
	// slowAfter is after how many checks without an untrusted handler the guard slows down.
	slowAfter = 4

	// sleepAfter is after how many checks without any work the guard sleeps. If it has slept for
	// longer than longSleep, requests are rare, and the next time sleepSoonAfter applies: with a
	// request every 60 ms, ten checks would cost four times as much as the request.
	sleepAfter     = 10
	sleepSoonAfter = 2
	longSleep      = 10 * time.Millisecond

	// If outageStalls routes stall within outageWindow, an outage begins. It lasts for
	// outageShortest, or twice as long as the last one if that has just ended. A single route
	// that stalls often is not an outage: it has left the loops. On a busy machine the route
	// with the most requests is stopped most often.
	outageStalls   = 4
	outageWindow   = time.Second
	outageShortest = time.Second
	outageLongest  = 32 * time.Second
)

// stallGuard finds leaders whose handlers are slow and replaces them. One goroutine does so for all
// shards of a server, and also compares their load (balance_linux.go). Its states:
//
//	fast ──slowAfter checks without an untrusted handler──▶ slow ──checkSoon──▶ fast
//	fast or slow ──checks without work──▶ asleep ──wake──▶ fast
type stallGuard struct {
	asleep       atomic.Bool
	slow         atomic.Bool
	sawUntrusted atomic.Bool // an untrusted handler ran since the last check
	outage       atomic.Bool // no handler runs on a loop
	wakeup       chan struct{}
}

// wake is called by loops that have work.
func (w *stallGuard) wake() {
	if w.asleep.Load() && w.asleep.CompareAndSwap(true, false) {
		w.signal()
	}
}

// checkSoon is called before a loop runs a handler that is not trusted.
func (w *stallGuard) checkSoon() {
	if !w.sawUntrusted.Load() {
		w.sawUntrusted.Store(true)
		if w.slow.Load() && w.slow.CompareAndSwap(true, false) {
			w.signal()
		}
	}
}

func (w *stallGuard) signal() {
	select {
	case w.wakeup <- struct{}{}:
	default:
	}
}

// run checks the group's shards until the group is stopped.
func (w *stallGuard) run(g *group) {
	var words observations
	var outages outages
	var balancer balancer
	ticker := time.NewTicker(fastInterval)
	defer ticker.Stop()
	last := time.Now()
	for idle, quiet, patience := 0, 0, sleepAfter; ; {
		select {
		case <-g.stopped:
			return
		case <-w.wakeup:
			idle, quiet, last = 0, 0, time.Now()
			ticker.Reset(fastInterval)
			continue
		case <-ticker.C:
		}
		now := time.Now()
		late := now.Sub(last) > 2*w.interval()
		last = now
		if quiet++; w.sawUntrusted.Swap(false) {
			quiet = 0
		} else if quiet >= slowAfter && w.slow.CompareAndSwap(false, true) {
			ticker.Reset(slowInterval)
		}
		busy, stalled := words.check(g.allShards(), late)
		w.outage.Store(outages.update(now, stalled))
		balancer.check(g, now)
		g.acceptors.passFromStuck(words)
		if idle++; busy {
			idle = 0
		}
		if idle < patience {
			continue
		}
		patience = sleepAfter
		w.slow.Store(false)
		w.asleep.Store(true)
		if busy, _ := words.check(g.allShards(), false); !busy || !w.asleep.CompareAndSwap(true, false) {
			ticker.Stop()
			select {
			case <-g.stopped:
				return
			case <-w.wakeup:
			}
			if time.Since(now) > longSleep {
				patience = sleepSoonAfter
			}
		}
		idle, quiet, last = 0, 0, time.Now()
		ticker.Reset(fastInterval)
	}
}

// interval returns the current interval between checks.
func (w *stallGuard) interval() time.Duration {
	if w.slow.Load() {
		return slowInterval
	}
	return fastInterval
}

// observations are the words of the shards at the last check.
type observations []observation

type observation struct {
	word      uint64
	excused   bool   // a late check has found it again
	turns     uint32 // shard.turns
	isServing bool
	isStuck   bool // the shard has been serving events of one turn since the last check
}

// check replaces the leaders whose word has not changed since the last check, and returns the slots
// of their handlers. busy reports whether any shard had work.
//
// What delays a check, a lack of processors or an exhausted quota, delays the leader, too. One late
// check therefore proves nothing.
func (all *observations) check(shards []*shard, late bool) (busy bool, stalled []slotID) {
	for len(*all) < len(shards) {
		*all = append(*all, observation{})
	}
	for i, s := range shards {
		seen, word := &(*all)[i], s.word.Load()
		serving := word&servingBit != 0
		busy = busy || serving || word != seen.word
		turns := s.turns.Load()
		seen.isStuck = serving && seen.isServing && turns == seen.turns
		seen.isServing, seen.turns = serving, turns
		switch {
		case word != seen.word:
			seen.word, seen.excused = word, false
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
	recent   []stall // at most one for each slot
	until    time.Time
	duration time.Duration // of the last outage
}

type stall struct {
	slot slotID
	at   time.Time
}

// update records the slots that have stalled and reports whether there is an outage.
func (o *outages) update(now time.Time, stalled []slotID) bool {
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
	if recurs := now.Sub(o.until) < max(o.duration, outageWindow); recurs {
		o.duration = min(2*o.duration, outageLongest)
	} else {
		o.duration = outageShortest
	}
	o.until, o.recent = now.Add(o.duration), nil
	return true
}
