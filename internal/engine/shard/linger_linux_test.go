package shard

import (
	"testing"
	"time"

	"github.com/tarehq/tare/internal/poll"
)

// attempts returns how often a loop lingers in n waits, and the longest time without a wait in Go's
// poller. All those waits are short. succeeds reports whether events happen while the loop lingers.
func attempts(n int, succeeds bool) (lingered int, longest time.Duration) {
	const took = 20 * time.Microsecond
	var w shortWaits
	var since time.Duration
	for range n {
		lingers := w.suffice(since)
		waited := poll.Parked
		if lingers {
			lingered++
			if succeeds {
				waited = poll.Lingered
			}
		}
		w.add(waited, lingers, took)
		if since += took; waited == poll.Parked {
			since = 0
		}
		longest = max(longest, since)
	}
	return lingered, longest
}

// A goroutine that a handler has started waits for its P no longer than lingerPeriod and a wait.
func TestLoopThatLingersLetsOthersRun(t *testing.T) {
	lingered, longest := attempts(1000, true)
	if lingered < 700 {
		t.Errorf("lingers %d times", lingered)
	}
	if longest > lingerPeriod+poll.LingerTime {
		t.Errorf("holds up others for %v", longest)
	}
}

// Events that other goroutines of the process cause do not happen while the loop lingers.
func TestLoopThatLingersInVainStops(t *testing.T) {
	if got, _ := attempts(10*mostShortWaits, false); got < 10 || got > 20 {
		t.Errorf("lingers %d times", got)
	}
}

func TestLongWaitsPreventLingering(t *testing.T) {
	w := shortWaits{count: 1}
	if !w.suffice(0) {
		t.Error("not after a short wait")
	}
	if w.add(poll.Parked, false, shortWait); w.suffice(0) {
		t.Error("after a long wait")
	}
}
