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
