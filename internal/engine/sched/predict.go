package sched

import (
	"slices"
	"sync/atomic"
	"time"
)

const (
	slots = 4096

	startDebt   = 16
	mostCharged = 64
	firstStall  = 2 << 10
	maxDebt     = 64 << 10

	// slowRun is how long a handler may run on the loop. A slower one gains more from moving to
	// an idle processor than the move costs.
	slowRun = 20 * time.Microsecond

	// maxOutlier is how long one run in suspectFor timed runs may take without a charge. A
	// collector on the same processor stops one run in a hundred for that long. A goroutine of
	// its own would not have ended sooner.
	maxOutlier = 10 * slowRun
	suspectFor = 16

	// sampleEvery is the number of runs on the loop of which one is timed; a power of two.
	sampleEvery = 16

	// trustAfter is after how many runs on the loop the stall guard checks at the slow
	// interval. forgiveAfter is after how many runs the stalls of a slot are forgotten.
	trustAfter   = 64
	forgiveAfter = 4 << 10
)

// table is the predictor, which all loops of a server share. Concurrent updates of its counters may
// be lost; they are estimates.
type table [slots + 1]slot

// SlotID is a slot's index in the table.
type SlotID uint16

// NoSlot is the SlotID of no handler.
const NoSlot SlotID = 0

// slot is the history of the requests that share it. Its debt is stored plus one, so that zero is a
// slot that was never used.
type slot struct {
	debt   atomic.Uint32
	trust  atomic.Uint32 // runs on the loop since the last stall
	stalls atomic.Uint32

	suspect atomic.Uint32 // timed runs during which another outlier is charged
}

// SlotFor returns the slot of a method and a request target.
func SlotFor(method, target string) SlotID {
	h := uint32(2166136261) // FNV-1a
	for _, b := range method {
		h = (h ^ uint32(b)) * 16777619
	}
	for i, segments := 0, 0; i < len(target) && target[i] != '?'; i++ {
		if target[i] == '/' {
			if segments++; segments == 3 {
				break
			}
		}
		h = (h ^ uint32(target[i])) * 16777619
	}
	return SlotID((h^h>>16)%slots) + 1
}

// isQuick reports whether the next run is expected to be quick.
func (s *slot) isQuick() bool { return s.debt.Load() == 1 }

// learn records the duration of a run.
func (s *slot) learn(elapsed time.Duration) {
	debt, suspect := s.debt.Load(), s.suspect.Load()
	switch {
	case elapsed > slowRun && elapsed < maxOutlier && suspect == 0:
		s.suspect.Store(suspectFor)
	case elapsed > slowRun:
		s.charge(uint32(min(elapsed/time.Microsecond, mostCharged)))
	case debt == 0:
		s.debt.Store(startDebt)
	case debt > 1:
		s.debt.Store(debt - 1)
	case suspect > 0:
		s.suspect.Store(suspect - 1)
	}
}

func (s *slot) charge(us uint32) {
	s.debt.Store(min(s.debt.Load()+us, maxDebt+1))
}

// addTrust counts a run on the loop. It reports whether the slot is trusted.
func (s *slot) addTrust() bool {
	n := s.trust.Load()
	if n < forgiveAfter {
		s.trust.Store(n + 1)
		if n+1 == forgiveAfter {
			s.stalls.Store(0)
		}
	}
	return n >= trustAfter
}

// chargeStall charges a run that cost its runner the lead.
func (s *slot) chargeStall() {
	s.trust.Store(0)
	n := s.stalls.Load()
	s.stalls.Store(n + 1)
	s.charge(min(uint32(firstStall)<<min(n, 8), maxDebt))
}

const (
	// If outageStalls routes stall within outageWindow, an outage begins. It lasts for
	// outageShortest, or twice as long as the last one if that has just ended. A single route
	// that stalls often is not an outage: it has left the loops. On a busy machine the route
	// with the most requests is stopped most often.
	outageStalls   = 4
	outageWindow   = time.Second
	outageShortest = time.Second
	outageLongest  = 32 * time.Second
)

// outages decides when there is an outage.
type outages struct {
	isOn     atomic.Bool // no handler should run on a loop
	recent   []stall     // at most one for each slot
	until    time.Time
	duration time.Duration // of the last outage
}

type stall struct {
	slot SlotID
	at   time.Time
}

// check records the slots that have stalled. It reports whether there is an outage.
func (o *outages) check(now time.Time, stalled []SlotID) bool {
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
	if recurs := now.Sub(o.until) < o.duration; recurs {
		o.duration = min(2*o.duration, outageLongest)
	} else {
		o.duration = outageShortest
	}
	o.until = now.Add(o.duration)
	return true
}
