package sched

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

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
	testkit.Equal(t, r.Leads() || r.Enter(id), false, "a goroutine leads before it follows")
	r.Follow(l)
	r.Begin()
	testkit.Equal(t, r.Leads() && r.Enter(id) && l.take(r.token) && promoted == 1, true, "the lead is taken")
	testkit.Equal(t, w.IsQuick(id), false, "the route of the hung handler is expected to be quick")
	testkit.Equal(t, w.IsQuick(other), true, "another route is not charged")
	next.Follow(l)
	next.Begin()
	testkit.Equal(t, r.Leads() || r.Enter(id) || l.take(r.token) || r.End() || r.IsServing(), false, "the old leader leads")
	testkit.Equal(t, next.Leads() && next.Enter(other) && next.End() && !next.IsServing(), true, "the next leader leads")
	next.Resign()
	testkit.Equal(t, promoted, 2, "leaders")
	timed := 0
	for range 10 * sampleEvery {
		if next.CountRun(other) {
			timed++
		}
	}
	testkit.Equal(t, timed, 10, "handlers are timed")
}

// Several routes that hang at a time are an outage: no handler runs on a loop.
func TestHungRoutesAreAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New()
		other := SlotFor("GET", "/other")
		for !w.IsQuick(other) {
			w.Learn(other, time.Microsecond)
		}
		for id := range SlotID(outageStalls) {
			var r Leader
			r.Follow(w.NewLead(func() {}))
			r.Begin()
			r.Enter(id + 1)
		}
		stopped := make(chan struct{})
		go w.Guard(stopped, func(time.Time) {})
		time.Sleep(2*slowInterval + 1)
		testkit.Equal(t, w.IsQuick(other), false, "a handler runs on a loop")
		close(stopped)
	})
}

// asleep is the time after which a guard without work sleeps. Its first check ends the fast pace.
const (
	fastChecks = slowAfter + 1
	asleep     = fastChecks*fastInterval + (sleepAfter-fastChecks)*slowInterval
)

// A loop that begins to serve is guarded if the guard sleeps, or is just falling asleep.
func TestGuardNeverSleepsWhileAHandlerRuns(t *testing.T) {
	for _, isFalling := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := New()
			var r Leader
			r.Follow(w.NewLead(func() {}))
			stopped, start := make(chan struct{}), time.Now()
			go w.Guard(stopped, func(now time.Time) {
				if isFalling && now.Sub(start) == asleep { // after the last check
					r.Begin()
				}
			})
			expect := func(pace uint32) {
				t.Helper()
				synctest.Wait()
				testkit.Equal(t, w.pace.Load(), pace, "the pace after", time.Since(start))
			}
			time.Sleep(asleep - 1)
			expect(paceSlow)
			time.Sleep(time.Nanosecond)
			if !isFalling {
				expect(paceAsleep)
				r.Begin()
			}
			time.Sleep(3 * slowInterval)
			synctest.Wait()
			testkit.Equal(t, r.Leads(), false, "the lead was not taken from a handler that hangs")
			time.Sleep(time.Minute)
			expect(paceAsleep)
			close(stopped)
		})
	}
}

// The guard sleeps soon if requests are rare. It checks often while a handler runs whose route it does
// not trust, and a check that comes late proves nothing.
func TestGuardChecksAsOftenAsNecessary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var checks, delay atomic.Int64 // delay of the next check
		w := New()
		l := w.NewLead(func() {})
		stopped := make(chan struct{})
		go w.Guard(stopped, func(time.Time) {
			checks.Add(1)
			time.Sleep(time.Duration(delay.Load()))
		})
		after := func(d time.Duration, want int64) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			testkit.Equal(t, checks.Swap(0), want, "checks")
		}
		var r Leader
		r.Follow(l)
		after(asleep+longSleep/2, sleepAfter)
		for _, next := range []struct {
			checks int64
			after  time.Duration
		}{
			{sleepAfter, time.Second}, // it has slept for a moment only
			{sleepSoonAfter, (1+sleepSoonAfter)*fastInterval + longSleep/2},
			{sleepAfter, time.Second},
		} {
			r.Begin()
			r.End()
			after(next.after, 1+next.checks) // the first one sees work
		}
		trusted := SlotFor("GET", "/trusted")
		for _, test := range []struct {
			hung   SlotID
			delay  time.Duration
			checks int64
			within time.Duration
		}{
			{SlotFor("GET", "/hung"), 0, 2, 3 * fastInterval},
			{SlotFor("GET", "/hung"), 3 * slowInterval, 3, time.Second},
			{trusted, 0, 2, 3 * slowInterval},
		} {
			r.Follow(l)
			r.Begin()
			for range 2 * trustAfter { // requests on one connection
				r.Enter(trusted)
				r.CountRun(trusted)
				time.Sleep(fastInterval / 2)
			}
			synctest.Wait()
			delay.Store(int64(test.delay))
			checks.Store(0)
			start := time.Now()
			r.Enter(test.hung)
			r.CountRun(test.hung)
			for r.Leads() {
				time.Sleep(fastInterval / 2)
				synctest.Wait()
			}
			testkit.Equal(t, checks.Load(), test.checks, "checks until the lead was taken", test)
			testkit.Between(t, time.Since(start), 0, test.within, test)
			r.End()
			delay.Store(0)
		}
		close(stopped)
		time.Sleep(time.Minute) // it may look at its ticker first
	})
}

func TestPredictorLearnsQuickRoutes(t *testing.T) {
	const quick, slow = time.Microsecond, 100 * time.Microsecond
	var p table
	at := func(method, target string) *slot { return &p[SlotFor(method, target)] }
	s := at("GET", "/a/b")
	testkit.Equal(t, s.isQuick(), false, "a request never seen is expected to be quick")
	runs := 0
	for ; !s.isQuick(); runs++ {
		s.learn(quick)
	}
	testkit.Equal(t, runs, startDebt, "quick runs earn the loop")
	for range 3 { // a single outlier is not charged
		s.learn(slow)
		testkit.Equal(t, s.isQuick(), true, "after one outlier")
		for range suspectFor {
			s.learn(quick)
		}
	}
	for name, twice := range map[string]time.Duration{"two outliers": slow, "a long run": maxOutlier} {
		s.learn(twice)
		if twice < maxOutlier {
			s.learn(twice)
		}
		for runs = 0; !s.isQuick(); runs++ {
			s.learn(quick)
		}
		testkit.Equal(t, runs, mostCharged, name, "is paid for by quick runs")
	}
	slowIn := func(n, of int) (onLoop int) { // runs on the loop in the last half
		for !s.isQuick() {
			s.learn(quick)
		}
		for i := range of {
			if i > of/2 && s.isQuick() {
				onLoop++
			}
			if s.learn(quick); i%n == 0 {
				s.learn(slow)
			}
		}
		return onLoop
	}
	testkit.Equal(t, slowIn(10, 10000), 0, "a route that is slow one time in ten was expected to be quick")
	testkit.Between(t, slowIn(1000, 100000), 40000, 50000, "a route with rare outliers was expected to be quick")
	for !s.isQuick() {
		s.learn(quick)
	}
	s.learn(time.Hour)
	testkit.Equal(t, s.debt.Load(), mostCharged+1)
	for range 2 * maxDebt / mostCharged {
		s.learn(time.Hour)
	}
	testkit.Equal(t, s.debt.Load(), maxDebt+1, "a route that is always slow")
	for target, same := range map[string]bool{
		"/a/b?c": true, "/a/b": true, "/a/c": false, "/a": false, "/": false,
	} {
		testkit.Equal(t, at("GET", target) == s, same, target, "shares the slot of /a/b")
	}
	testkit.Equal(t, at("POST", "/a/b") == s, false, "POST shares the slot of GET")
	testkit.Equal(t, at("GET", "/users/list") == at("GET", "/users/other"), false, "share a slot")
	same := at("GET", "/users/list/1/x") == at("GET", "/users/list/2/y")
	testkit.Equal(t, same, true, "what follows two segments makes no difference")
}

// Each stall keeps a route off the loop for twice as long, until it has been quick for long. It
// ends the trust that a route earns by many runs.
func TestStallsDoubleTheDebt(t *testing.T) {
	var s slot
	stall := func() (runs int) {
		s.chargeStall()
		for ; !s.isQuick(); runs++ {
			s.learn(time.Microsecond)
		}
		return runs
	}
	stall()
	for want := 2 * firstStall; want <= maxDebt; want *= 2 {
		testkit.Equal(t, stall(), want, "runs pay")
	}
	for range 32 {
		s.chargeStall()
	}
	stall()
	for range forgiveAfter - 1 {
		s.addTrust()
	}
	testkit.Equal(t, stall(), maxDebt, "runs pay at the most")
	for i := range forgiveAfter {
		testkit.Equal(t, s.addTrust(), i >= trustAfter, "trusted after a stall and", i, "runs")
	}
	testkit.Equal(t, stall(), firstStall, "runs pay after quick runs")
}

func TestSeveralStalledRoutesAreAnOutage(t *testing.T) {
	var o outages
	start := time.Now()
	at := func(d time.Duration, routes int) bool {
		var stalled []SlotID
		for id := range routes {
			stalled = append(stalled, SlotID(id+1))
		}
		return o.check(start.Add(d), stalled)
	}
	for i := range 10 {
		testkit.Equal(t, at(time.Duration(i)*outageWindow*2, outageStalls-1), false, "stalls that are far apart")
	}
	for i := range 10 {
		isOutage := o.check(start.Add(20*outageWindow+time.Duration(i)), []SlotID{7, 7, 7, 7})
		testkit.Equal(t, isOutage, false, "a single route")
	}
	begins := 30 * outageWindow
	for i := range outageStalls - 1 {
		isOutage := o.check(start.Add(begins+time.Duration(i)), []SlotID{SlotID(i + 1)})
		testkit.Equal(t, isOutage, false, i+1, "stalls")
	}
	for i := range 8 {
		lasts := min(outageShortest<<i, outageLongest)
		testkit.Equal(t, at(begins+10, outageStalls), true, "outage")
		testkit.Equal(t, at(begins+9+lasts, 0), true, "it lasts")
		testkit.Equal(t, at(begins+10+lasts, 0), false, "it ends after", lasts)
		begins += 10 + lasts
	}
	begins += 10 * outageLongest
	testkit.Equal(t, at(begins, outageStalls), true, "a later outage")
	testkit.Equal(t, at(begins+outageShortest, 0), false, "is not short again")
}
