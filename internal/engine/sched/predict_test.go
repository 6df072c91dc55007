package sched

import (
	"testing"
	"time"
)

func TestPredictorLearnsQuickRoutes(t *testing.T) {
	const quick, slow = time.Microsecond, 100 * time.Microsecond
	var p table
	at := func(method, target string) *slot { return &p[SlotFor(method, target)] }
	s := at("GET", "/a/b")
	if s.isQuick() {
		t.Error("a request never seen is expected to be quick")
	}
	runs := 0
	for ; !s.isQuick(); runs++ {
		s.learn(quick)
	}
	if runs != startDebt {
		t.Errorf("earned the loop after %d quick runs, want %d", runs, startDebt)
	}
	for range 3 { // a single outlier is not charged
		if s.learn(slow); !s.isQuick() {
			t.Error("one outlier keeps a route off the loop")
		}
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
		if runs != mostCharged {
			t.Errorf("%s: paid for by %d quick ones", name, runs)
		}
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
	if n := slowIn(10, 10000); n > 0 {
		t.Errorf("a route that is slow one time in ten was expected to be quick %d times", n)
	}
	if n := slowIn(1000, 100000); n < 40000 {
		t.Errorf("a route that has an outlier one time in a thousand was expected to be quick %d times of 50000", n)
	}
	for !s.isQuick() {
		s.learn(quick)
	}
	s.learn(time.Hour)
	if got := s.debt.Load(); got != mostCharged+1 {
		t.Errorf("debt %d", got)
	}
	for range 2 * maxDebt / mostCharged {
		s.learn(time.Hour)
	}
	if got := s.debt.Load(); got != maxDebt+1 {
		t.Errorf("debt %d of a route that is always slow", got)
	}
	for target, same := range map[string]bool{
		"/a/b?c": true, "/a/b": true, "/a/c": false, "/a": false, "/": false,
	} {
		if got := at("GET", target) == s; got != same {
			t.Errorf("%s shares the slot of /a/b: %v", target, got)
		}
	}
	if at("POST", "/a/b") == s {
		t.Error("POST shares the slot of GET")
	}
	if at("GET", "/users/list/1/x") != at("GET", "/users/list/2/y") {
		t.Error("what follows two segments makes a difference")
	}
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
		if got := stall(); got != want {
			t.Errorf("paid for by %d runs, want %d", got, want)
		}
	}
	for range 32 {
		s.chargeStall()
	}
	stall()
	if got := stall(); got != maxDebt {
		t.Errorf("paid for by %d runs, want %d at the most", got, maxDebt)
	}
	for range forgiveAfter {
		s.addTrust()
	}
	if got := stall(); got != firstStall {
		t.Errorf("debt paid by %d runs after quick runs, want %d", got, firstStall)
	}
}

func TestTrustNeedsManyRuns(t *testing.T) {
	var s slot
	for i := range trustAfter {
		if s.addTrust() {
			t.Fatalf("trusted after %d runs", i)
		}
	}
	if !s.addTrust() {
		t.Error("not trusted")
	}
	if s.chargeStall(); s.addTrust() {
		t.Error("trusted after it stalled a loop")
	}
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
		if at(time.Duration(i)*outageWindow*2, outageStalls-1) {
			t.Fatal("stalls that are far apart are an outage")
		}
	}
	for i := range 10 {
		if o.check(start.Add(20*outageWindow+time.Duration(i)), []SlotID{7, 7, 7, 7}) {
			t.Fatal("a single route is an outage")
		}
	}
	begins := 30 * outageWindow
	for i := range outageStalls - 1 {
		if o.check(start.Add(begins+time.Duration(i)), []SlotID{SlotID(i + 1)}) {
			t.Fatalf("%d stalls are an outage", i+1)
		}
	}
	for i := range 8 {
		lasts := min(outageShortest<<i, outageLongest)
		if !at(begins+10, outageStalls) {
			t.Fatal("no outage")
		}
		if !at(begins+9+lasts, 0) || at(begins+10+lasts, 0) {
			t.Fatalf("the outage does not end after %v", lasts)
		}
		begins += 10 + lasts
	}
	if begins += 10 * outageLongest; !at(begins, outageStalls) || at(begins+outageShortest, 0) {
		t.Error("an outage long after the last one is not short again")
	}
}
