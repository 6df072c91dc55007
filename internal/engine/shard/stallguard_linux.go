package shard

import (
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/predict"
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
)

// stallGuard finds leaders whose handlers are slow and replaces them. One goroutine does so for all
// shards of a server, and also compares their load (balance_linux.go). Its states:
//
//	fast ──check──▶ quiet ──slowAfter checks──▶ slow
//	quiet, slow ──checkSoon──▶ fast
//	any ──checks without work──▶ asleep ──wake──▶ quiet
type stallGuard struct {
	pace    atomic.Uint32
	outages predict.Outages
	wakeup  chan struct{}
}

const (
	paceFast  uint32 = iota // an untrusted handler ran since the last check
	paceQuiet               // checks are as frequent, but none did
	paceSlow
	paceAsleep
)

// wake is called by loops that have work.
func (w *stallGuard) wake() {
	if w.pace.Load() == paceAsleep && w.pace.CompareAndSwap(paceAsleep, paceQuiet) {
		exchange.Signal(w.wakeup)
	}
}

// checkSoon is called before a loop runs a handler that is not trusted.
func (w *stallGuard) checkSoon() {
	if w.pace.Load() != paceFast && w.pace.Swap(paceFast) >= paceSlow {
		exchange.Signal(w.wakeup)
	}
}

// run checks the group's shards until the group is stopped.
func (w *stallGuard) run(g *Group) {
	var words observations
	var balancer balancer
	passFromStalled := func(_, a any) bool {
		a.(*acceptor).passFromStalled(words)
		return true
	}
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
		if quiet++; w.pace.CompareAndSwap(paceFast, paceQuiet) {
			quiet = 0
		} else if quiet >= slowAfter && w.pace.CompareAndSwap(paceQuiet, paceSlow) {
			ticker.Reset(slowInterval)
		}
		busy, stalled := words.check(g.allShards(), late)
		w.outages.Update(now, stalled)
		balancer.check(g, now)
		g.acceptors.Range(passFromStalled)
		if idle++; busy {
			idle = 0
		}
		if idle < patience {
			continue
		}
		patience = sleepAfter
		w.pace.Store(paceAsleep)
		if busy, _ := words.check(g.allShards(), false); !busy || !w.pace.CompareAndSwap(paceAsleep, paceQuiet) {
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
	if w.pace.Load() == paceSlow {
		return slowInterval
	}
	return fastInterval
}

// observations are the words of the shards at the last check.
type observations []observation

type observation struct {
	word    uint64
	excused bool   // one check that found the word again came late, and is no proof
	turns   uint32 // shard.turns
	work    work
}

// work is what a shard does.
type work uint8

const (
	waits work = iota
	serves
	isHeldUp // serves events of the turn that the last check has seen
)

// check replaces the leaders whose word has not changed since the last check, and returns the slots
// of their handlers. busy reports whether any shard had work.
//
// What delays a check, a lack of processors or an exhausted quota, delays the leader, too. One late
// check therefore proves nothing.
func (all *observations) check(shards []*shard, late bool) (busy bool, stalled []predict.SlotID) {
	for len(*all) < len(shards) {
		*all = append(*all, observation{})
	}
	for i, s := range shards {
		seen, word := &(*all)[i], s.word.Load()
		serving := word&servingBit != 0
		busy = busy || serving || word != seen.word
		turns := s.turns.Load()
		switch {
		case !serving:
			seen.work = waits
		case seen.work != waits && turns == seen.turns:
			seen.work = isHeldUp
		default:
			seen.work = serves
		}
		seen.turns = turns
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
