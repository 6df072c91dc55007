package engine

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func (r *reserve) held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.size
}

func TestReserveFollowsCollections(t *testing.T) {
	now := time.Now()
	var r reserve
	for _, step := range []struct {
		after time.Duration
		most  int
		want  int
	}{
		{time.Hour, maxReserve, 0},
		{reserveBelow, maxReserve, 0}, // just rarely enough
		{reserveBelow - 1, maxReserve, firstReserve},
		{reserveBelow - 1, firstReserve, firstReserve},
		{reserveBelow - 1, maxReserve, 2 * firstReserve},
		{reserveBelow, maxReserve, 2 * firstReserve},
		{reserveBelow - 1, maxReserve, 4 * firstReserve},
		{reserveBelow - 1, maxReserve, maxReserve},
		{keepBelow, maxReserve, maxReserve},
		{reserveBelow - 1, firstReserve, 0}, // after GOMAXPROCS was lowered
		{reserveBelow - 1, firstReserve, firstReserve},
		{keepBelow + 1, firstReserve, 0},
	} {
		now = now.Add(step.after)
		if r.adjust(now, step.most); r.size != step.want {
			t.Errorf("%d bytes after a run %v after the last, want %d", r.size, step.after, step.want)
		}
	}
}

// collect runs the collector until a condition holds, because cleanups run slightly later.
func collect(t *testing.T, what string, until func() bool) {
	t.Helper()
	for start := time.Now(); !until(); {
		if time.Since(start) > time.Minute {
			t.Fatal(what)
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
}

func TestReserveIsHeldWhileServing(t *testing.T) {
	if !collectorHasDefaults() {
		t.Skip("GOGC or GOMEMLIMIT is set")
	}
	var r reserve
	r.retain(0)
	r.retain(0)
	collect(t, "no reserve", func() bool { return r.held() == reserveLimit(0) })
	r.release()
	if r.held() == 0 {
		t.Error("dropped during Serve")
	}
	if r.release(); r.held() > 0 {
		t.Error("held without Serve")
	}
	collect(t, "the collector is still listened to", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return !r.isWatching
	})
}

func TestReserveLimitIsSetting(t *testing.T) {
	if !collectorHasDefaults() {
		t.Skip("GOGC or GOMEMLIMIT is set")
	}
	const limit = 1 << 20
	var r reserve
	r.retain(limit)
	collect(t, "no reserve", func() bool { return r.held() == limit })
	r.release()
	var none reserve
	if none.retain(-1); none.isWatching {
		t.Error("a negative limit allows a reserve")
	}
}

func TestReserveIsNotUsedIfCollectorIsTuned(t *testing.T) {
	if !collectorHasDefaults() {
		t.Skip("GOGC or GOMEMLIMIT is set")
	}
	for name, tune := range map[string]func() (undo func()){
		"GOGC": func() func() {
			old := debug.SetGCPercent(200)
			return func() { debug.SetGCPercent(old) }
		},
		"GOMEMLIMIT": func() func() {
			old := debug.SetMemoryLimit(1 << 40)
			return func() { debug.SetMemoryLimit(old) }
		},
	} {
		var r reserve
		r.retain(0)
		collect(t, name+": no reserve", func() bool { return r.held() > 0 })
		undo := tune()
		if collectorHasDefaults() {
			t.Errorf("%s is set, and it is not seen", name)
		}
		collect(t, name+": held", func() bool { return r.held() == 0 })
		undo()
		r.release()
	}
}
