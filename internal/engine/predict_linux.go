package engine

import (
	"sync/atomic"
	"time"
)

// A handler that runs on a shard's loop stalls the loop for as long as it runs.
// Whether one will is predicted, as processors predict branches, by what requests
// like it did before: those with the same method and the same first path segments
// share a slot of a table.
//
// A slot holds a debt in microseconds. A slow run adds what it took, but no more than
// mostCharged; a quick one takes one away. In debt means a goroutine of its own. So a
// route that is slow one time in ten stays off the loop, and one that is quick but for
// rare hiccups comes back to it. (Counters that weigh all slow runs alike fail there: a
// route that blocks one time in a hundred looks quick to them, and stalls the loop for it
// every time. To add the whole time fails on a busy machine: the kernel, or the
// collector, stops a run in a hundred for a millisecond, and no route would come back.)
//
// What blocks more rarely than that is found out on the loop, when the watcher has the
// leader replaced. Each such stall costs far more, and twice as much as the one before. It is
// charged when the lead is taken, as the handler may never return.
//
// When a database or a lock that many routes share stops, they stall one after another. Several
// stalls in short succession are an outage: for a while no handler runs on a loop.
//
// A slot that was never seen starts in debt: running on the loop is earned. Clients
// choose paths; they shall not choose when the loop stalls.
const (
	slots       = 4096
	startDebt   = 16
	mostCharged = 64
	firstStall  = 2 << 10
	maxDebt     = 64 << 10

	// slowRun is what a handler may take on the loop. What takes longer gains
	// from being moved to an idle processor more than it loses by that.
	slowRun = 20 * time.Microsecond

	// hiccup is what a run on the loop may take once in suspectFor timed ones for nothing: where the collector
	// runs on the same processor it stops one run in a hundred for that long, and a goroutine of its own would
	// not have ended sooner.
	hiccup     = 10 * slowRun
	suspectFor = 16

	// sampleEvery is how many runs on the loop go by for one that is timed; a power
	// of two.
	sampleEvery = 16

	// trustAfter is how many runs on the loop a slot needs before the watcher takes
	// its time with it, and forgiveAfter how many make its stalls forgotten.
	trustAfter   = 64
	forgiveAfter = 4 << 10
)

// predictor is shared by all shards of a server. Its counters may lose a race
// between two shards; they are estimates.
type predictor struct{ slots [slots]slot }

// slotID is a slot's index in the table plus one; noSlot is none.
type slotID uint16

const noSlot slotID = 0

// at returns a slot.
func (p *predictor) at(id slotID) *slot { return &p.slots[(id-1)%slots] }

// slot's debt is held plus one, so that zero is a slot that was never seen.
type slot struct {
	debt   atomic.Uint32
	trust  atomic.Uint32 // runs on the loop since the last stall
	stalls atomic.Uint32

	suspect atomic.Uint32 // timed runs for which another hiccup counts
}

// slotFor returns the slot of a request line.
func slotFor(method, target string) slotID {
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
	return slotID((h^h>>16)%slots) + 1
}

// quick reports whether the next run is expected to be.
func (s *slot) quick() bool { return s.debt.Load() == 1 }

// learn notes how long a run took.
func (s *slot) learn(took time.Duration) {
	debt, suspect := s.debt.Load(), s.suspect.Load()
	switch {
	case took > slowRun && took < hiccup && debt == 1 && suspect == 0:
		s.suspect.Store(suspectFor)
	case took > slowRun:
		s.charge(uint32(min(took/time.Microsecond, mostCharged)))
	case debt == 0:
		s.debt.Store(startDebt)
	case debt > 1:
		s.debt.Store(debt - 1)
	case suspect > 0:
		s.suspect.Store(suspect - 1)
	}
}

func (s *slot) charge(us uint32) {
	debt := s.debt.Load()
	if debt == 0 {
		debt = startDebt + 1
	}
	s.debt.Store(min(debt+us, maxDebt+1))
}

// trusted counts a run on the loop and reports whether there were many.
func (s *slot) trusted() bool {
	n := s.trust.Load()
	if n < forgiveAfter {
		s.trust.Store(n + 1)
		if n+1 == forgiveAfter {
			s.stalls.Store(0)
		}
	}
	return n >= trustAfter
}

// stalled charges a run that cost its runner the lead.
func (s *slot) stalled() {
	s.trust.Store(0)
	n := s.stalls.Load()
	s.stalls.Store(n + 1)
	s.charge(min(uint32(firstStall)<<min(n, 8), maxDebt))
}
