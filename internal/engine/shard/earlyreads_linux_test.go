package shard

import "testing"

func TestEarlyReadsThatFindNothingEnd(t *testing.T) {
	var e earlyReads
	for i := range earlyMisses {
		if !e.isWorthwhile() {
			t.Fatalf("no early read after %d that have found nothing", i)
		}
		e.noteWaiting()
	}
	tries := 0
	for range 10 * earlySample {
		if e.isWorthwhile() {
			tries++
			e.noteWaiting()
		}
	}
	if tries != 10 {
		t.Errorf("%d early reads, want 10", tries)
	}
	early, late := new(shardConn), new(shardConn)
	late.state.set(flagAdded, true)
	if e.noteServed(late); e.isWorthwhile() {
		t.Error("a request that has arrived late makes early reads worthwhile")
	}
	if e.noteServed(early); !e.isWorthwhile() {
		t.Error("no early read although one has found a request")
	}
}
