package sched

import (
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

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

// Each stall keeps a route off the loop for twice as long, until it has been quick for long.
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
	for range forgiveAfter {
		s.addTrust()
	}
	testkit.Equal(t, stall(), firstStall, "runs pay after quick runs")
}

func TestTrustNeedsManyRuns(t *testing.T) {
	var s slot
	for i := range trustAfter {
		testkit.Equal(t, s.addTrust(), false, "trusted after", i, "runs")
	}
	testkit.Equal(t, s.addTrust(), true, "trusted")
	s.chargeStall()
	testkit.Equal(t, s.addTrust(), false, "trusted after it stalled a loop")
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
