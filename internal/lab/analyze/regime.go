package analyze

import (
	"fmt"

	"github.com/tarehq/tare/internal/lab/sample"
)

// reachedBound is the share of due requests that must receive a response.
const reachedBound = 0.99

// rateMissed warns of trials that did not reach their fixed rate, and of doubts about the
// generator.
func rateMissed(a *Analysis, t *Table, row *Row) string {
	if t.Saturated() {
		return ""
	}
	missed, worst := 0, 1.0
	records := a.records(t, row)
	for _, r := range records {
		if share := float64(r.Load.Requests) / max(1, r.Load.Due); share < reachedBound {
			missed++
			worst = min(worst, share)
		}
	}
	if missed > 0 {
		return fmt.Sprintf("the rate was not reached in %d of %d trials; in the worst, %.1f %% of the due requests received a response", missed, len(records), 100*worst)
	}
	return generatorDoubted(records)
}

// generatorDoubted returns why the figures may be the load generator's in most trials at a fixed
// rate.
func generatorDoubted(records []*sample.Record) string {
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

// latencyOfSaturation warns of a contender whose latency at a fixed rate is that of saturation.
func latencyOfSaturation(a *Analysis, t *Table, row *Row) string {
	if t.Saturated() || generatorDoubted(a.records(t, row)) != "" {
		return "" // the times may be the generator's
	}
	c := t.Condition
	c.Rate = 0
	full, fixed := perBlock(a.Run, row.Entrant, c), perBlock(a.Run, row.Entrant, t.Condition)
	queue := median(full, func(r *sample.Record) float64 { return 1e3 * r.Load.Latency.Quantile(0.5).Seconds() })
	late := median(fixed, func(r *sample.Record) float64 { return 1e3 * r.Load.Latency.Quantile(0.99).Seconds() })
	if !(late >= queue) {
		return ""
	}
	return fmt.Sprintf("1 %% of requests take at least %.2f ms, as long as the median at saturation (%.2f ms): the rate is too high for the contender, or it pauses at times", late, queue)
}
