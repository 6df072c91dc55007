package load

import "sync/atomic"

// budget is a plan's number of requests, or of errors, which its workers share.
type budget struct {
	total uint64
	taken atomic.Uint64
	ended atomic.Uint64
	spent chan struct{} // closed when all have been answered, or have failed
}

func newBudget(total uint64) *budget { return &budget{total: total, spent: make(chan struct{})} }

// take reports whether there is a request left, and takes it.
func (b *budget) take() bool {
	for {
		// Not added before it is known: the one that is given back meanwhile could not be had.
		n := b.taken.Load()
		if n >= b.total {
			return false
		}
		if b.taken.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// giveBack returns a request that was taken and has to be sent again.
func (b *budget) giveBack() { b.taken.Add(^uint64(0)) }

// done notes that a request was answered or has failed.
func (b *budget) done() {
	if b.ended.Add(1) == b.total {
		close(b.spent)
	}
}

// limited reports whether a plan bounds the number of requests.
func (j *job) limited() bool { return j.Requests > 0 }

// atOnce reports whether measuring begins before connections are made: their making is a part of
// a number of requests.
func (j *job) atOnce() bool { return j.limited() && j.Warmup == 0 }

// mayAsk reports whether one more request is within the plan's number, and takes it.
func (w *worker) mayAsk() bool {
	if !w.limited() {
		return true
	}
	if !w.tally.counting {
		return w.Warmup > 0
	}
	return w.budget.take()
}
