// Package analyze computes from a run's records what reports show: a table for each condition, with
// ratios, pairs, differences by part, and warnings. It reads and draws nothing.
//
// Ratios compare each slice of a contender with another's slice of the same round (ratio.go).
package analyze

import (
	"math"
	"sync"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
	"github.com/tarehq/tare/load/hist"
)

// Analysis is the result of a run.
type Analysis struct {
	*sample.Run
	Tables  []Table // one for each measured condition; none if there are targets
	Targets []TargetResult
}

// Table has the rows of one condition.
type Table struct {
	sample.Condition
	Rows    []Row // in the entrants' order, without those that had no trial
	Pairs   []Pair
	Changes []Change // of two builds; nil unless both were measured

	Decompositions []Decomposition
	Missing        []string // system calls that were not counted, with the reason
}

// Row is the result of one contender under one condition.
type Row struct {
	*sample.Entrant
	sample.Condition
	Trials   int // successful ones
	Failures []string

	WeightUs stat.Interval // CPU time per request of all server processes
	Ratio    Ratio         // of the weight to the control's, by slices
	Parts    []Part        // of the weight, in the order in which a request passes them

	PerSecond stat.Interval
	RateRatio stat.Interval
	Latency   func() *hist.Histogram // of all trials together; merged at the first call

	Voluntary, Involuntary float64 // context switches per request; medians
	RSS                    float64 // bytes; median
	BodyBytes              float64 // of a response; median
	Busy                   float64 // highest share of a CPU of the generator in any trial

	Warnings []string // problems that limit the row's validity
	Limits   []string // those of them that explain why it failed, was measured alone, or has no interval

	blocks []*sample.Record // nil without a record
}

// Analyze computes the tables of a run.
func Analyze(run *sample.Run) *Analysis {
	a := &Analysis{Run: run}
	if len(run.Targets) > 0 {
		for _, t := range run.Targets {
			a.Targets = append(a.Targets, target(run, t))
		}
		return a
	}
	for _, c := range run.Conditions {
		t := Table{Condition: c}
		for i := range run.Entrants {
			if row, ok := analyzeRow(run, &run.Entrants[i], c); ok {
				t.Rows = append(t.Rows, row)
			}
		}
		t.Pairs, t.Changes = pairs(run, &t), changes(run, &t)
		if c.Saturated() { // otherwise a trial has too few clock ticks to separate user and system time
			t.Decompositions = decompose(run, &t)
		}
		if t.Missing = missing(run, &t); len(t.Rows) > 0 {
			a.Tables = append(a.Tables, t)
		}
	}
	a.check()
	return a
}

// WidestInterval returns half the width of the widest interval, as a share of its ratio. It is
// infinite if an interval has no bounds.
func (a *Analysis) WidestInterval() float64 {
	widest := 0.0
	for i := range a.Tables {
		for j := range a.Tables[i].Rows {
			r := &a.Tables[i].Rows[j]
			switch {
			case r.Kind == sample.Control || r.Trials == 0:
			case !r.Ratio.Known():
				return math.Inf(1)
			default:
				widest = max(widest, (r.Ratio.Hi-r.Ratio.Lo)/2/r.Ratio.Mid)
			}
		}
	}
	return widest
}

func analyzeRow(run *sample.Run, e *sample.Entrant, c sample.Condition) (Row, bool) {
	blocks := perBlock(run, e, c)
	row := Row{Entrant: e, Condition: c, blocks: blocks}
	row.Latency = sync.OnceValue(func() *hist.Histogram {
		all := hist.New()
		for _, r := range row.measured() {
			all.Merge(r.Load.Latency)
		}
		return all
	})
	for i := range run.Records {
		if r := &run.Records[i]; r.Contender == e.Name && r.Condition == c && r.Failure != "" && r.Attribution == nil {
			row.Failures = append(row.Failures, r.Failure)
		}
	}
	for _, r := range row.measured() {
		row.Trials++
		row.Busy = max(row.Busy, r.Load.Generator.Busy)
	}
	if row.Trials == 0 {
		return row, len(row.Failures) > 0
	}
	weights := values(blocks, (*sample.Record).WeightUs)
	rate := values(blocks, func(r *sample.Record) float64 { return r.Load.PerSecond() })
	row.WeightUs = stat.Median(stat.Known(weights))
	row.PerSecond = stat.Median(stat.Known(rate))
	control := recordsLike(run, run.Control(), c, blocks)
	row.Ratio = Weights(blocks, control, Weight)
	row.RateRatio = Rates(blocks, control).Interval
	row.Parts = parts(blocks, counted(run, e.Name, c))
	row.Voluntary = median(blocks, func(r *sample.Record) float64 { return r.PerRequest("", sample.Voluntary) })
	row.Involuntary = median(blocks, func(r *sample.Record) float64 { return r.PerRequest("", sample.Involuntary) })
	row.RSS = median(blocks, func(r *sample.Record) float64 { return r.Sum("", sample.RSS) })
	row.BodyBytes = median(blocks,
		func(r *sample.Record) float64 { return over(r, r.Load.BodyBytes) })
	return row, true
}

// values applies f to each block's record. The value of a missing record is NaN.
func values(blocks []*sample.Record, f func(*sample.Record) float64) []float64 {
	v := make([]float64, len(blocks))
	for i, r := range blocks {
		v[i] = math.NaN()
		if r != nil {
			v[i] = f(r)
		}
	}
	return v
}

func median(blocks []*sample.Record, f func(*sample.Record) float64) float64 {
	return stat.Median(stat.Known(values(blocks, f))).Mid
}

func over(r *sample.Record, n uint64) float64 { return float64(n) / float64(max(1, r.Load.Requests)) }

// Row returns the row of the first entrant of a kind, or nil.
func (t *Table) Row(kind sample.Kind) *Row {
	return sample.First(t.Rows, func(r *Row) bool { return r.Kind == kind })
}

// Others returns the share of a CPU that other programs used, if it widens intervals; otherwise 0.
func (t *Table) Others() (most float64) {
	for i := range t.Rows {
		most = max(most, t.Rows[i].Ratio.Others)
	}
	return most
}

// Named returns the row of the contender with a name, or nil.
func (t *Table) Named(name string) *Row {
	return sample.First(t.Rows, func(r *Row) bool { return r.Name == name })
}

// Measured returns the rows with a successful trial.
func (t *Table) Measured() (rows []*Row) {
	for i := range t.Rows {
		if t.Rows[i].Trials > 0 {
			rows = append(rows, &t.Rows[i])
		}
	}
	return rows
}
