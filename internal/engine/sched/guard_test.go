package sched

import (
	"testing"
	"testing/synctest"
	"time"
)

// word returns the word of a lead.
func word(sequence uint64, id SlotID, serving uint64) uint64 {
	return sequence<<sequenceShift | uint64(id)<<slotShift | serving
}

func TestLeaderInSameHandlerTwiceIsReplaced(t *testing.T) {
	w := New()
	l := w.NewLead(func() {})
	var all Observations
	id := SlotFor("GET", "/hung")
	for i, step := range []struct {
		word           uint64
		late           bool
		busy, replaced bool
	}{
		{word(0, NoSlot, 0), false, false, false},
		{word(1, NoSlot, 1), false, true, false},
		{word(2, id, 1), false, true, false},
		{word(3, id, 1), false, true, false}, // the same route, but another request
		{word(3, id, 0), false, true, false},
		{word(3, id, 0), false, false, false},
		{word(4, id, 1), false, true, false},
		// the check was late, so that the leader may be late, too
		{word(4, id, 1), true, true, false},
		{word(4, id, 1), true, true, true}, // but not a second time
		{word(9, id, 1), true, true, false},
		{word(9, id, 1), false, true, true},
	} {
		l.word.Store(step.word)
		busy, stalled := all.check(*w.leads.Load(), step.late)
		if busy != step.busy || (len(stalled) == 1) != step.replaced || step.replaced && stalled[0] != id {
			t.Errorf("step %d: busy %v, slots %v replaced", i, busy, stalled)
		}
		if got := l.word.Load(); step.replaced && got != wordAfter(step.word) || !step.replaced && got != step.word {
			t.Errorf("step %d: the word is %x after %x", i, got, step.word)
		}
	}
	if next := wordAfter(word(9, id, 1)); next != word(10, NoSlot, 0) {
		t.Errorf("the word of the next leader is %x", next)
	}
}

// A handler that hangs never returns, so that its route is charged when the lead is taken.
func TestHungHandlerIsChargedWhileItRuns(t *testing.T) {
	w, promoted := New(), 0
	l := w.NewLead(func() { promoted++ })
	id, other := SlotFor("GET", "/hung"), SlotFor("GET", "/other")
	for _, quick := range []SlotID{id, other} {
		for !w.IsQuick(quick) {
			w.Learn(quick, time.Microsecond)
		}
	}
	var r, next Leader
	r.Follow(l)
	if r.Begin(); !r.Enter(id) || !l.take(r.token) || promoted != 1 {
		t.Fatal("the lead was not taken")
	}
	if w.IsQuick(id) {
		t.Error("the route of the hung handler is still expected to be quick")
	}
	if !w.IsQuick(other) {
		t.Error("another route was charged")
	}
	next.Follow(l)
	next.Begin()
	if r.Leads() || r.Enter(id) || l.take(r.token) || r.End() {
		t.Error("the old leader still leads")
	}
	if !next.Leads() || !next.Enter(other) || !next.End() || promoted != 1 {
		t.Error("the next leader does not lead")
	}
}

// A loop that starts to serve just when the guard falls asleep is guarded. Both happen at the
// same instant of the bubble's clock, in any order.
func TestGuardNeverSleepsWhileAHandlerRuns(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 30
	}
	for range rounds {
		synctest.Test(t, func(t *testing.T) {
			w := New()
			l := w.NewLead(func() {})
			stopped, done := make(chan struct{}), make(chan bool)
			go func() {
				w.Guard(stopped, func(time.Time, Observations) {})
				close(done)
			}()
			asleep := slowAfter*fastInterval + (sleepAfter-slowAfter)*slowInterval
			time.Sleep(asleep)
			var r Leader
			r.Follow(l)
			r.Begin()
			time.Sleep(3 * slowInterval)
			if r.Leads() {
				t.Error("the lead was not taken from a handler that hangs")
			}
			time.Sleep(time.Minute)
			if w.pace.Load() != paceAsleep {
				t.Error("the guard of an idle server does not sleep")
			}
			close(stopped)
			<-done
		})
	}
}
