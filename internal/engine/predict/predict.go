// Package predict guesses from past requests which handlers block, and finds outages.
//
// A handler that runs on a shard's loop stalls the loop for as long as it runs. Whether it will run
// long is predicted, as processors predict branches, from earlier requests like it. Requests with
// the same method and the same first path segments share a slot of a [Table].
//
// A slot holds a debt in microseconds. A slow run adds its duration, but no more than mostCharged.
// A quick run subtracts one. A handler whose slot is in debt runs in a goroutine of its own. A
// route that is slow one time in ten therefore stays off the loop. One that is quick except for
// rare outliers returns to it.
//
// Two alternatives fail. Counters that weigh all slow runs alike consider a route quick that blocks
// one time in a hundred, and it stalls the loop each time. Charging the whole duration fails on a
// busy machine: the kernel or the collector stops one run in a hundred for a millisecond, so that
// no route would ever return.
//
// Handlers that block more rarely are detected on the loop, when the stall guard replaces the
// leader. Each such stall costs far more, and twice as much as the one before. It is charged when
// the lead is taken, because the handler may never return.
//
// If a database or a lock that many routes share stops, they stall one after another. Several
// stalls in short succession are an outage: for some time no handler runs on a loop.
//
// A slot that was never used starts in debt: a route must earn the loop. Clients choose paths, and
// they must not choose when the loop stalls.
package predict

import (
	"sync/atomic"
	"time"
)

const (
	// Slots is the number of slots of a Table. A SlotID is less than or equal to it.
	Slots = 4096

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

	// SampleEvery is the number of runs on the loop of which one is timed; a power of two.
	SampleEvery = 16

	// trustAfter is after how many runs on the loop the stall guard checks at the slow
	// interval. forgiveAfter is after how many runs the stalls of a slot are forgotten.
	trustAfter   = 64
	forgiveAfter = 4 << 10
)

// Table is the predictor, which all shards of a server share. Concurrent updates of its counters
// may be lost; they are estimates.
type Table struct{ slots [Slots]Slot }

// SlotID is a slot's index in the table plus one.
type SlotID uint16

// NoSlot is the SlotID of no slot.
const NoSlot SlotID = 0

// At returns the slot with an id.
func (t *Table) At(id SlotID) *Slot { return &t.slots[(id-1)%Slots] }

// Slot is the history of the requests that share it. Its debt is stored plus one, so that zero is a
// slot that was never used.
type Slot struct {
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
	return SlotID((h^h>>16)%Slots) + 1
}

// IsQuick reports whether the next run is expected to be quick.
func (s *Slot) IsQuick() bool { return s.debt.Load() == 1 }

// Learn records the duration of a run.
func (s *Slot) Learn(elapsed time.Duration) {
	debt, suspect := s.debt.Load(), s.suspect.Load()
	switch {
	case elapsed > slowRun && elapsed < maxOutlier && debt == 1 && suspect == 0:
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

func (s *Slot) charge(us uint32) {
	debt := s.debt.Load()
	if debt == 0 {
		debt = startDebt + 1
	}
	s.debt.Store(min(debt+us, maxDebt+1))
}

// AddTrust counts a run on the loop. It reports whether the slot is trusted.
func (s *Slot) AddTrust() bool {
	n := s.trust.Load()
	if n < forgiveAfter {
		s.trust.Store(n + 1)
		if n+1 == forgiveAfter {
			s.stalls.Store(0)
		}
	}
	return n >= trustAfter
}

// ChargeStall charges a run that cost its runner the lead.
func (s *Slot) ChargeStall() {
	s.trust.Store(0)
	n := s.stalls.Load()
	s.stalls.Store(n + 1)
	s.charge(min(uint32(firstStall)<<min(n, 8), maxDebt))
}
