package analyze

import (
	"math"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

// TargetResult compares a target with the figures of a run.
type TargetResult struct {
	sample.Target
	Of, Than float64       // medians of the figure; Than is NaN without a reference
	Value    stat.Interval // the ratio, or without a reference the figure
	Starts   int           // in which the contender, and the reference, were measured
	Standing Standing
}

// Standing is how a value compares with the limit of a target.
type Standing uint8

const (
	Unmeasured Standing = iota // there is no value
	Open                       // the interval contains the limit, or has no bounds
	Met                        // the whole interval is within the limit
	Missed                     // the whole interval is beyond the limit
	Unlimited                  // the target has no required limit
)

func (s Standing) String() string {
	return [...]string{"not measured", "not shown", "met", "MISSED", ""}[s]
}

func standing(i stat.Interval, l sample.Limit) Standing {
	switch {
	case math.IsNaN(i.Mid) || math.IsInf(i.Mid, 0):
		return Unmeasured
	case !l.IsSet():
		return Unlimited
	}
	return [...]Standing{stat.Undecided: Open, stat.Holds: Met, stat.Violated: Missed}[i.Against(l.Value, l.Least)]
}

// AimStanding returns how the value compares with the aim.
func (r *TargetResult) AimStanding() Standing { return standing(r.Value, r.Aim) }

func target(run *sample.Run, t sample.Target) TargetResult {
	r := TargetResult{Target: t, Of: math.NaN(), Than: math.NaN(), Value: stat.Interval{Mid: math.NaN()}}
	for _, c := range run.Conditions {
		if c.Scenario.Name == t.Row {
			of, than := pairOf(run, c, t)
			r.compare(of, than)
		}
	}
	r.Standing = standing(r.Value, t.Require)
	return r
}

// pairOf returns the records of a target's contender and of its reference, by block. Both are of
// slices side by side, or both of whole trials.
func pairOf(run *sample.Run, c sample.Condition, t sample.Target) (of, than []*sample.Record) {
	entrant, reference := run.Entrant(t.Contender), run.Entrant(t.Reference)
	if t.Metric.IsCounted() {
		isCount := func(r *sample.Record) bool {
			return r.Attribution != nil && r.Attribution.Calls != nil && r.Failure == "" && r.Block > 0
		}
		return inBlocks(run, entrant, c, isCount), inBlocks(run, reference, c, isCount)
	}
	of = perBlock(run, entrant, c)
	return of, recordsLike(run, reference, c, of)
}

func (r *TargetResult) compare(of, than []*sample.Record) {
	mine := values(of, r.Metric.Of)
	own := stat.Median(stat.Known(mine))
	r.Of, r.Starts = own.Mid, len(stat.Known(mine))
	if r.Reference == "" {
		r.Value = own
		return
	}
	r.Than = median(than, r.Metric.Of)
	if math.IsNaN(r.Of) || math.IsNaN(r.Than) {
		return
	}
	r.Value = metricRatio(r.Metric, of, than)
}

// metricRatio returns the ratio of a metric: by slices if slices have it, and otherwise by starts.
func metricRatio(m sample.Metric, of, than []*sample.Record) stat.Interval {
	switch m {
	case sample.CPU:
		return Weights(of, than, Weight).Interval
	case sample.ApplicationCPU:
		return Weights(of, than, func(s *sample.Slice) float64 {
			return s.WeightUs(contender.RoleApplication)
		}).Interval
	case sample.FrontCPU:
		return Weights(of, than, func(s *sample.Slice) float64 {
			return s.WeightUs(contender.RoleNginx) + s.WeightUs(contender.RoleFront)
		}).Interval
	case sample.Rate:
		return Rates(of, than).Interval
	case sample.Bytes: // all responses of a row have the same body
		return inverse(Weights(of, than, Weight).Interval)
	}
	ratio := stat.Ratios(perStart(of, m), perStart(than, m)).Interval
	if m.Latency() { // requests wait for other programs, too
		all := pair(of, than, Weight, false)
		ratio = widened(ratio, all.others(), disturbedShift)
	}
	return ratio
}

// inverse returns the interval of 1/x. One without bounds stays so.
func inverse(i stat.Interval) stat.Interval {
	if !i.Known() {
		i.Mid = 1 / i.Mid
		return i
	}
	return stat.Interval{Lo: 1 / i.Hi, Mid: 1 / i.Mid, Hi: 1 / i.Lo}
}

func perStart(records []*sample.Record, m sample.Metric) stat.Starts {
	all := make(stat.Starts, len(records))
	for i, v := range values(records, m.Of) {
		all[i] = []float64{v}
	}
	return all
}

// Change is the difference of the second of two builds from the first in one metric.
type Change struct {
	Metric     sample.Metric
	Ratio      stat.Interval // second to first; unset for sample.Errors
	Count      uint64        // errors of the second build
	ErrorShare float64       // share of errors among its requests that ended
}

// changes returns the differences of the second build from the first, in the order of
// sample.Metrics. It returns nil if one of the two was not measured.
func changes(run *sample.Run, t *Table) (all []Change) {
	first, second := t.Row(sample.Control), t.Row(sample.Build)
	if first == nil || second == nil || first.Trials == 0 || second.Trials == 0 {
		return nil
	}
	after := second.blocks
	before := recordsLike(run, first.Entrant, t.Condition, after)
	for _, m := range sample.Metrics() {
		c := Change{Metric: m}
		if m == sample.Errors {
			var ended uint64
			for _, r := range second.measured() {
				c.Count, ended = c.Count+r.Load.Errors.Total(), ended+r.Load.Ended()
			}
			c.ErrorShare = float64(c.Count) / float64(max(1, ended))
		} else {
			c.Ratio = metricRatio(m, after, before)
		}
		all = append(all, c)
	}
	return all
}
