package analyze

import (
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

// Change is the difference of the second of two builds from the first in one metric.
type Change struct {
	Metric sample.Metric
	Ratio  stat.Interval // second to first; unset for sample.Errors
	Count  uint64        // errors of the second build
	// ErrorShare is the share of errors among its requests that ended.
	ErrorShare float64
}

// Changes returns the differences of the second build from the first under the table's condition,
// in the order of sample.Metrics. It returns nil if one of the two was not measured.
func (a *Analysis) Changes(t *Table) (all []Change) {
	first, second := t.Row(sample.Control), t.Row(sample.Build)
	if first == nil || second == nil || first.Trials == 0 || second.Trials == 0 {
		return nil
	}
	after := perBlock(a.Run, second.Entrant, t.Condition)
	before := recordsLike(a.Run, first.Entrant, t.Condition, after)
	for _, m := range sample.Metrics() {
		c := Change{Metric: m}
		if m == sample.Errors {
			var ended uint64
			for _, r := range after {
				if r != nil {
					c.Count, ended = c.Count+r.Load.Errors.Total(), ended+r.Load.Ended()
				}
			}
			c.ErrorShare = float64(c.Count) / float64(max(1, ended))
		} else {
			c.Ratio = metricRatio(m, after, before)
		}
		all = append(all, c)
	}
	return all
}
