package report

import (
	"fmt"
	"slices"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
	"github.com/tarehq/tare/load"
	loadreport "github.com/tarehq/tare/load/report"
)

// CheckBounds returns an error if trials of so many blocks cannot decide a bound of the change from
// the first build to the second. Latencies are compared at a fixed rate only: at saturation they are
// the length of the queue.
func CheckBounds(g load.Goal, blocks int, atRate bool) error {
	for _, b := range g.Bounds {
		m := sample.Metric(b.Name())
		switch {
		case !slices.Contains(sample.Metrics(), m):
			return fmt.Errorf("%s: %s is not compared: want one of %v", b, m, sample.Metrics())
		case m.Latency() && !atRate:
			return fmt.Errorf("%s: latencies are compared at a fixed rate, which is not set", b)
		case m != sample.Errors && blocks < stat.FewestStarts:
			return fmt.Errorf("%s: %s have no interval: want %d or more", b, loadreport.Plural(blocks, "block"),
				stat.FewestStarts)
		}
	}
	return g.CheckRelative()
}

// Judgment is the result of a bound under one condition.
type Judgment struct {
	Outcome stat.Outcome
	Text    string // a line for the reader
}

// Judge compares the two builds with each bound under each condition, and latencies at fixed rates
// only. A bound without a comparison is undecided.
func (a *Report) Judge(g load.Goal) (all []Judgment) {
	for _, b := range g.Bounds {
		before, m := len(all), sample.Metric(b.Name())
		for i := range a.Tables {
			t := &a.Tables[i]
			for _, c := range a.Changes(t.Table) {
				if c.Metric == m && (!t.Saturated() || !m.Latency()) {
					o := outcome(b, &c)
					all = append(all, Judgment{o, fmt.Sprintf("%s: %s: %s: %s, with %s", b, o,
						metricTitle(m), changeText(&c), t.Text())})
				}
			}
		}
		if len(all) == before {
			all = append(all, Judgment{stat.Undecided, fmt.Sprintf("%s: %s: %s: the two builds were not both measured", b,
				stat.Undecided, metricTitle(m))})
		}
	}
	return all
}

func outcome(b load.Bound, c *analyze.Change) stat.Outcome {
	if c.Metric == sample.Errors {
		return stat.OutcomeOf(b.Holds(c.ErrorShare))
	}
	return c.Ratio.Against(1+b.Share, b.Figure == load.Rate)
}
