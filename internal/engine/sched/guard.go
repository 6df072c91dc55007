package sched

import "time"

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

// The stall guard finds leaders whose handlers are slow and replaces them. The states of its pace:
//
//	fast ──check──▶ quiet ──slowAfter checks──▶ slow
//	quiet, slow ──checkSoon──▶ fast
//	any ──checks without work──▶ asleep ──wake──▶ quiet
const (
	paceFast  uint32 = iota // an untrusted handler ran since the last check
	paceQuiet               // none ran; checks are still as frequent
	paceSlow
	paceAsleep
)

// wake is called by loops that have work.
func (w *Scheduler) wake() {
	if w.pace.Load() == paceAsleep && w.pace.CompareAndSwap(paceAsleep, paceQuiet) {
		w.signal()
	}
}

// checkSoon is called before a loop runs a handler that is not trusted.
func (w *Scheduler) checkSoon() {
	if w.pace.Load() != paceFast && w.pace.Swap(paceFast) >= paceSlow {
		w.signal()
	}
}

func (w *Scheduler) signal() {
	select {
	case w.wakeup <- struct{}{}:
	default:
	}
}

// Guard checks all leads until stopped is closed. After each check it calls checked.
func (w *Scheduler) Guard(stopped <-chan struct{}, checked func(now time.Time)) {
	ticker := time.NewTicker(fastInterval)
	defer ticker.Stop()
	last := time.Now()
	for idle, quiet, patience := 0, 0, sleepAfter; ; {
		select {
		case <-stopped:
			return
		case <-w.wakeup:
			last = time.Now()
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
		busy, stalled := checkLeads(*w.leads.Load(), late)
		w.outages.isOn.Store(w.outages.check(now, stalled))
		checked(now)
		if idle++; busy {
			idle = 0
		}
		if idle < patience {
			continue
		}
		patience = sleepAfter
		w.pace.Store(paceAsleep)
		if busy, _ := checkLeads(*w.leads.Load(), false); !busy || !w.pace.CompareAndSwap(paceAsleep, paceQuiet) {
			select { // meanwhile nobody receives from the ticker, which then does not run
			case <-stopped:
				return
			case <-w.wakeup:
			}
			if time.Since(now) > longSleep {
				patience = sleepSoonAfter
			}
		}
		quiet = 0
		ticker.Reset(fastInterval)
	}
}

func (w *Scheduler) interval() time.Duration {
	if w.pace.Load() == paceSlow {
		return slowInterval
	}
	return fastInterval
}

// checkLeads replaces the leaders whose word has not changed since the last check, and returns the
// slots of their handlers. busy reports whether any loop had work.
//
// What delays a check, a lack of processors or an exhausted quota, delays the leader, too. One late
// check therefore proves nothing.
func checkLeads(leads []*Lead, late bool) (busy bool, stalled []SlotID) {
	for _, l := range leads {
		word := l.word.Load()
		serving := word&servingBit != 0
		busy = busy || serving || word != l.seen
		switch {
		case word != l.seen:
			l.seen, l.isExcused = word, false
		case !serving:
		case late && !l.isExcused:
			l.isExcused = true
		case l.take(word):
			stalled = append(stalled, slotIn(word))
		}
	}
	return busy, stalled
}
