package shard

import (
	"time"

	"github.com/tarehq/tare/internal/poll"
)

const (
	// shortWait is how long a wait in Go's poller may take to count as short.
	shortWait = 2 * poll.LingerTime
	// acceptedRecently is how long after it has accepted a connection a loop may linger. Loops
	// whose clients connect anew wait often and shortly. Others would save less than their
	// goroutines and timers would lose.
	acceptedRecently = time.Millisecond
	// handOffRest is how long after a hand-off no loop lingers: the runner needs a P.
	handOffRest = time.Millisecond
	// lingerPeriod is how long a loop may linger again and again before it waits in Go's poller.
	// Other goroutines of its P, timers, and the sockets of package net wait meanwhile.
	lingerPeriod = 100 * time.Microsecond
	// mostShortWaits limits how many short waits must precede an attempt to linger.
	mostShortWaits = 256
)

// shortWaits predicts whether events are about to happen. A loop lingers after short waits. Each
// time it has lingered in vain, twice as many short waits must precede the next attempt, and each
// success halves the number. Events may be caused by goroutines of the same process, which need the
// P. Waits are then short only if the loop does not linger.
type shortWaits struct {
	count  int // since the last wait that was long, or that lingered in vain
	inVain int // more that must precede an attempt to linger, because others were in vain
}

// suffice reports whether the loop may linger. sinceYield is how long it has kept its P.
func (w *shortWaits) suffice(sinceYield time.Duration) bool {
	return w.count > w.inVain && sinceYield < lingerPeriod
}

// add records a wait. lingers reports whether the loop was allowed to linger.
func (w *shortWaits) add(waited poll.WaitKind, lingers bool, took time.Duration) {
	switch {
	case waited == poll.Lingered:
		w.inVain /= 2
	case lingers:
		w.count, w.inVain = 0, min(2*w.inVain+1, mostShortWaits-1)
	case took < shortWait:
		w.count++
	default:
		w.count = 0
	}
}

// mayLinger reports whether the loop may wait without giving up its P. It may if connections
// arrive, if events are about to happen, and if no other goroutine of the server is known to need a
// processor.
func (s *shard) mayLinger() bool {
	return s.reportedAt.Sub(s.acceptedAt) < acceptedRecently && s.shortWaits.suffice(s.reportedAt.Sub(s.lastYield)) &&
		s.group.instant(s.reportedAt)-instant(s.group.handedOff.Load()) > instant(handOffRest)
}
