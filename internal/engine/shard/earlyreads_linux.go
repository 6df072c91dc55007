package shard

import "sync/atomic"

const (
	// earlyMisses is how many early reads in a row must find nothing before there are no more.
	earlyMisses = 4
	// earlySample is how many connections a shard accepts without an early read before it tries
	// one.
	earlySample = 32
)

// earlyReads predicts whether a request has arrived when its connection is accepted. If so, the
// loop need not report the connection, which saves two system calls if it ends after a response.
// This is so if the server is slower than its clients, or if the kernel waits for the request
// (TCP_DEFER_ACCEPT). If not, the read costs a call, and a runner's turn. A client on the same
// machine that connects without waiting sends its request after the connection was accepted.
type earlyReads struct {
	misses  atomic.Int32 // early reads in a row that have found nothing; not more than earlyMisses
	skipped int          // connections without an early read; owned by the leader
}

// isWorthwhile reports whether a new connection is read before the loop reports it.
func (e *earlyReads) isWorthwhile() bool {
	if e.misses.Load() < earlyMisses {
		return true
	}
	e.skipped++
	return e.skipped%earlySample == 0
}

// noteServed records that an early read has found a request.
func (e *earlyReads) noteServed() {
	if e.misses.Load() > 0 {
		e.misses.Store(0)
	}
}

// noteWaiting records that an early read has found no complete request.
func (e *earlyReads) noteWaiting() {
	if n := e.misses.Load(); n < earlyMisses {
		e.misses.Store(n + 1)
	}
}
