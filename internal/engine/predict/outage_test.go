package predict

import (
	"testing"
	"time"
)

func TestSeveralStalledRoutesAreAnOutage(t *testing.T) {
	var o Outages
	start := time.Now()
	at := func(d time.Duration, routes int) bool {
		var stalled []SlotID
		for id := range routes {
			stalled = append(stalled, SlotID(id+1))
		}
		return o.Update(start.Add(d), stalled)
	}
	for i := range 10 {
		if at(time.Duration(i)*outageWindow*2, outageStalls-1) {
			t.Fatal("stalls that are far apart are an outage")
		}
	}
	for i := range 10 {
		if o.Update(start.Add(20*outageWindow+time.Duration(i)), []SlotID{7, 7}) {
			t.Fatal("a single route is an outage")
		}
	}
	begins := 30 * outageWindow
	for i := range outageStalls - 1 {
		if o.Update(start.Add(begins+time.Duration(i)), []SlotID{SlotID(i + 1)}) {
			t.Fatalf("%d stalls are an outage", i+1)
		}
	}
	for lasts := outageShortest; lasts <= outageLongest; lasts *= 2 {
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
