// Package sched decides which handlers run on a loop, and which goroutine leads it. It knows
// neither sockets nor requests.
//
// # Leaders
//
// One goroutine at a time leads a loop: it serves what is ready, and runs handlers itself. A
// handler that blocks holds up the loop. A stall guard therefore checks all leads at intervals. If
// it finds a leader in the same handler twice, another goroutine leads, and the old one finishes
// what it serves (lead.go, guard.go).
//
// # Predictor
//
// Whether a handler will run long is predicted, as processors predict branches, from earlier
// requests like it. Requests with the same method and the same first path segments share a slot of
// a table (predict.go).
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
// Handlers that block more rarely are detected on the loop, when the guard replaces the leader.
// Each such stall costs far more, and twice as much as the one before. It is charged when the lead
// is taken, because the handler may never return.
//
// If a database or a lock that many routes share stops, they stall one after another. Several
// stalls in short succession are an outage: for some time no handler runs on a loop (outages).
//
// A slot that was never used starts in debt: a route must earn the loop. Clients choose paths, and
// they must not choose when the loop stalls.
package sched

import (
	"slices"
	"sync/atomic"
	"time"
)

// Scheduler is what the loops of a server share.
type Scheduler struct {
	slots   table
	outages outages
	leads   atomic.Pointer[[]*Lead]
	pace    atomic.Uint32 // of the guard
	wakeup  chan struct{}
}

// New returns a Scheduler without a loop.
func New() *Scheduler {
	s := &Scheduler{wakeup: make(chan struct{}, 1)}
	s.leads.Store(new([]*Lead))
	return s
}

// NewLead returns the lead of another loop. promote makes a goroutine lead it; any goroutine may
// call it. Calls of NewLead must not be concurrent.
func (w *Scheduler) NewLead(promote func()) *Lead {
	l := &Lead{scheduler: w, promote: promote}
	all := append(slices.Clone(*w.leads.Load()), l)
	w.leads.Store(&all)
	return l
}

// IsQuick reports whether the next handler of a slot should run on a loop.
func (w *Scheduler) IsQuick(id SlotID) bool {
	return w.slots[id].isQuick() && !w.outages.isOn.Load()
}

// Learn records how long a handler has run.
func (w *Scheduler) Learn(id SlotID, elapsed time.Duration) { w.slots[id].learn(elapsed) }
