package load

import "sync/atomic"

// budget is a plan's number of requests, or of errors, which its workers share.
type budget struct {
	total     uint64
	acquired  atomic.Uint64
	finished  atomic.Uint64
	exhausted chan struct{} // closed when all have been answered, or have failed
}

func newBudget(total uint64) *budget { return &budget{total: total, exhausted: make(chan struct{})} }

// take reports whether there is a request left, and takes it.
func (b *budget) acquire() bool {
	for {
		// Not added before it is known: the one that is given back meanwhile could not be had.
		n := b.acquired.Load()
		if n >= b.total {
			return false
		}
		if b.acquired.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// giveBack returns a request that was taken and has to be sent again.
func (b *budget) release() { b.acquired.Add(^uint64(0)) }

// done notes that a request was answered or has failed.
func (b *budget) finish() {
	if b.finished.Add(1) == b.total {
		close(b.exhausted)
	}
}

// limited reports whether a plan bounds the number of requests.
func (j *job) hasRequestLimit() bool { return j.Requests > 0 }

// atOnce reports whether measuring begins before connections are made: their making is a part of
// a number of requests.
func (j *job) measuresConnecting() bool { return j.hasRequestLimit() && j.Warmup == 0 }

// mayAsk reports whether one more request is within the plan's number, and takes it.
func (w *worker) mayRequest() bool {
	if !w.hasRequestLimit() {
		return true
	}
	if !w.tally.counting {
		return w.Warmup > 0
	}
	return w.requestBudget.acquire()
}
