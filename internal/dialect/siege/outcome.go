package siege

import (
	"time"

	"github.com/tarehq/tare/load"
)

type outcome struct {
	hits, successful, failed uint64
	unanswered               uint64 // those of failed without a response
	seconds                  float64
	megabytes                float64
	total                    time.Duration // of all transactions, including connecting
	longest, shortest        time.Duration
	timed                    int // number of transactions with a time
}

// count computes siege's counters. siege counts socket errors and some statuses as failures, but
// includes the times and bytes of those responses in the sums.
func count(r *load.Result) outcome {
	const mega = 1024 * 1024
	e := &r.Errors
	o := outcome{
		seconds: r.Seconds, megabytes: float64(r.BodyBytes) / mega,
		unanswered: e.WithoutResponse(),
	}
	o.failed = o.unanswered
	for status, n := range r.Statuses {
		if isHit(status) {
			o.hits += n
		}
		if isFailure(status) {
			o.failed += n
		}
		if isSuccess(status) {
			o.successful += n
		}
	}
	for i := range r.Samples {
		if s := &r.Samples[i]; s.Status != 0 && s.Status != teapot {
			o.add(s.Done - s.Sent + s.Connect)
		}
	}
	// Not all transactions have a sample: the others take as long on average.
	if n := o.responses(r); o.timed > 0 && n > o.timed {
		o.total = time.Duration(float64(o.total) / float64(o.timed) * float64(n))
	}
	return o
}

func (o *outcome) responses(r *load.Result) int {
	return int(r.Requests - r.Statuses[teapot])
}

func (o *outcome) add(elapsed time.Duration) {
	if o.timed == 0 || elapsed < o.shortest {
		o.shortest = elapsed
	}
	o.longest = max(o.longest, elapsed)
	o.total += elapsed
	o.timed++
}

const teapot = 418 // status that siege assigns to a response that is not HTTP

func isFailure(status int) bool {
	return status == 408 || status == teapot || 500 <= status && status <= 509
}

// isHit reports whether siege counts a response as a transaction.
func isHit(status int) bool { return !isFailure(status) || status == teapot }

func isSuccess(status int) bool { return status < 400 || status == 401 || status == 407 }

func (o *outcome) availability() float64 {
	return 100 * ratio(float64(o.hits), float64(o.hits+o.failed))
}

func (o *outcome) responseTime() float64 { return ratio(o.total.Seconds(), float64(o.hits)) }

func (o *outcome) concurrency() float64 { return ratio(o.total.Seconds(), o.seconds) }

func (o *outcome) rate() float64 { return ratio(float64(o.hits), o.seconds) }

func (o *outcome) throughput() float64 { return ratio(o.megabytes, o.seconds) }

// shortestSeconds returns the shortest transaction. Like siege, it returns 0 if none succeeded.
func (o *outcome) shortestSeconds() float64 {
	if o.successful == 0 {
		return 0
	}
	return o.shortest.Seconds()
}

// ratio returns a/b, or 0 if b is 0, as in siege.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
