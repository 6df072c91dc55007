package predict

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

// Outages decides when there is an outage.
type Outages struct {
	isOn     atomic.Bool
	recent   []stall // at most one for each slot
	until    time.Time
	duration time.Duration // of the last outage
}

type stall struct {
	slot SlotID
	at   time.Time
}

// IsOn reports whether there is an outage: no handler should run on a loop. Any goroutine may call
// it.
func (o *Outages) IsOn() bool { return o.isOn.Load() }

// Update records the slots that have stalled and reports whether there is an outage.
func (o *Outages) Update(now time.Time, stalled []SlotID) bool {
	isOn := o.update(now, stalled)
	o.isOn.Store(isOn)
	return isOn
}

func (o *Outages) update(now time.Time, stalled []SlotID) bool {
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
