package report

import (
	"fmt"
	"time"

	"github.com/tarehq/tare/lab/trial"
)

// MeasuredTime is for how long each of a table's trials was measured.
func (a *Analysis) MeasuredTime(t *Table) time.Duration {
	if t.Saturated() {
		return a.Measure
	}
	return a.RateMeasure
}

// reachedBound is which share of the requests that were due has to be answered.
const reachedBound = 0.99

// rateMissed warns of trials at a fixed rate that did not reach it, and of those in which the
// figures may be the generator's.
func rateMissed(a *Analysis, t *Table, row *Row) string {
	if t.Saturated() {
		return ""
	}
	missed, worst := 0, 1.0
	records := a.records(t, row)
	for _, r := range records {
		if share := float64(r.Load.Requests) / max(1, r.Load.Asked); share < reachedBound {
			missed++
			worst = min(worst, share)
		}
	}
	if missed > 0 {
		return fmt.Sprintf("it did not reach the rate in %d of %d trials: in the worst %.1f %% of what was due was answered", missed, len(records), 100*worst)
	}
	return generatorDoubted(records)
}

// generatorDoubted says why in most of the trials at a fixed rate the figures may be the
// generator's.
func generatorDoubted(records []*trial.Record) string {
	n, why := 0, ""
	for _, r := range records {
		if doubts := r.Load.Doubts(); len(doubts) > 0 {
			n++
			why = doubts[0]
		}
	}
	if 2*n <= len(records) {
		return ""
	}
	return fmt.Sprintf("in %d of %d trials %s", n, len(records), why)
}

// pastKnee warns of a contender that waits at a fixed rate as if it were saturated.
func pastKnee(a *Analysis, t *Table, row *Row) string {
	if t.Saturated() || generatorDoubted(a.records(t, row)) != "" {
		return "" // then the times are not the contender's
	}
	c := t.Condition
	c.Rate = 0
	full, fixed := perBlock(a.Run, row.Entrant, c), perBlock(a.Run, row.Entrant, t.Condition)
	queue := median(full, func(r *trial.Record) float64 { return ms(r.Load.Latency.Quantile(0.5)) })
	late := median(fixed, func(r *trial.Record) float64 { return ms(r.Load.Latency.Quantile(0.99)) })
	if !(late >= queue) {
		return ""
	}
	return fmt.Sprintf("one request in a hundred takes %.2f ms or longer, and half of them take %.2f ms when it is saturated: the rate is past its knee, or something stops it now and then", late, queue)
}
