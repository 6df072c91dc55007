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
// A slot holds a debt in microseconds. A run that took long adds what it took, a
// quick one takes one away. In debt means a goroutine of its own. So a route that
// blocks one time in ten stays off the loop, and one that is quick but for a rare
// hiccup comes back to it. (Counters that weigh all slow runs alike fail there: a
// route that blocks one time in a hundred looks quick to them, and stalls the loop
// for it every time.)
//
// A slot that was never seen starts in debt: running on the loop is earned. Clients
// choose paths; they shall not choose when the loop stalls.
const (
	slots     = 4096
	startDebt = 16
	maxDebt   = 16 << 10

	// slowRun is what a handler may take on the loop. What takes longer gains
	// from being moved to an idle processor more than it loses by that.
	slowRun = 20 * time.Microsecond

	// sampleEvery is how many runs on the loop go by for one that is timed; a power
	// of two. Looking at the clock twice costs a hundredth of a small request.
	sampleEvery = 16

	// trustAfter is how many runs on the loop a slot needs before the watcher takes
	// its time with it.
	trustAfter = 64
)

// predictor is shared by all shards of a server. Its counters may lose a race
// between two shards; they are estimates.
type predictor struct{ slots [slots]slot }

// slot's debt is held plus one, so that zero is a slot that was never seen.
type slot struct {
	debt  atomic.Uint32
	trust atomic.Uint32
}

// slot finds the slot of a request line.
func (p *predictor) slot(method, target []byte) *slot {
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
	return &p.slots[(h^h>>16)%slots]
}

// quick reports whether the next run is expected to be.
func (s *slot) quick() bool { return s.debt.Load() == 1 }

// learn notes how long a run took.
func (s *slot) learn(took time.Duration) {
	debt := s.debt.Load()
	if debt == 0 {
		debt = startDebt + 1
	}
	switch {
	case took > slowRun:
		s.debt.Store(min(debt+uint32(min(took/time.Microsecond, maxDebt)), maxDebt+1))
	case debt > 1:
		s.debt.Store(debt - 1)
	case s.debt.Load() == 0:
		s.debt.Store(debt)
	}
}

// trusted counts a run on the loop and reports whether there were many.
func (s *slot) trusted() bool {
	if n := s.trust.Load(); n < trustAfter {
		s.trust.Store(n + 1)
		return false
	}
	return true
}

// stalled notes a run that cost its runner the lead.
func (s *slot) stalled() {
	s.trust.Store(0)
	s.learn(2 * watchClosely)
}
