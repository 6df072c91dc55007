package load

import "sync/atomic"

// budget is a limit of requests or errors that the workers share.
type budget struct {
	total     uint64
	acquired  atomic.Uint64
	finished  atomic.Uint64
	exhausted chan struct{} // closed when total is finished
}

func newBudget(total uint64) *budget { return &budget{total: total, exhausted: make(chan struct{})} }

// acquire reserves a request and reports whether one was left.
func (b *budget) acquire() bool {
	for {
		// A plain Add would overshoot first, and a request released meanwhile would be lost.
		n := b.acquired.Load()
		if n >= b.total {
			return false
		}
		if b.acquired.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release returns a reserved request that must be retried.
func (b *budget) release() { b.acquired.Add(^uint64(0)) }

func (b *budget) finish() {
	if b.finished.Add(1) == b.total {
		close(b.exhausted)
	}
}

func (j *job) hasRequestLimit() bool { return j.plan.Requests > 0 }

// measuresConnecting reports whether measuring begins before connections are opened. With a limited
// number of requests, opening them is part of the measurement.
func (j *job) measuresConnecting() bool { return j.hasRequestLimit() && j.plan.Warmup == 0 }

// mayRequest reports whether one more request is within Plan.Requests, and reserves it.
func (w *worker) mayRequest() bool {
	if !w.job.hasRequestLimit() {
		return true
	}
	if !w.tally.counting {
		return w.plan.Warmup > 0
	}
	return w.run.requestBudget.acquire()
}
