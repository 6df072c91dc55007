package sched

import (
	"slices"
	"sync/atomic"
	"time"
)

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

// update records the slots that have stalled, and sets isOn.
func (o *outages) update(now time.Time, stalled []SlotID) { o.isOn.Store(o.check(now, stalled)) }

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
