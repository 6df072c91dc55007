package report

import (
	"io"
	"maps"
	"math"
	"slices"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

// Names of the files of differences and of counts.
const (
	differencesFile = "differences.csv"
	countsFile      = "counts.csv"
)

// unbounded returns a value without bounds.
func unbounded(v float64) stat.Interval {
	return stat.Interval{Lo: math.Inf(-1), Mid: v, Hi: math.Inf(1)}
}

// writeDifferences writes the parts of all decompositions, one per line. Those of a decomposition
// add up to its total.
func (a *Report) writeDifferences(w io.Writer) error {
	type line struct {
		sample.Condition
		*analyze.Decomposition
		part string
		us   stat.Interval
	}
	var lines []line
	for _, t := range a.Tables {
		for i := range t.Decompositions {
			d := &t.Decompositions[i]
			add := func(part string, us stat.Interval) { lines = append(lines, line{t.Condition, d, part, us}) }
			add("total", d.TotalUs)
			for j := range d.Parts {
				add(d.Parts[j].Name(), d.Parts[j].Us)
			}
			add("residual", unbounded(d.ResidualUs))
		}
	}
	return document.WriteCSV(w, slices.Concat(
		leading(a, func(l line) sample.Condition { return l.Condition },
			document.Text("of", func(l line) string { return l.Of.Name }),
			document.Text("than", func(l line) string { return l.Than.Name }),
			document.Text("what", func(l line) string { return l.What }),
			document.Text("part", func(l line) string { return l.part })),
		document.Interval("us", func(l line) stat.Interval { return l.us }),
	), slices.Values(lines))
}

// count is a resource that requests of a contender use.
type count struct {
	sample.Condition
	contender, where, what string
	perRequest             float64
}

// writeCounts writes the resources that requests use, one number per line.
func (a *Report) writeCounts(w io.Writer) error {
	var lines []count
	for _, t := range a.Tables {
		for i := range t.Usage.Rows {
			r := &t.Usage.Rows[i]
			add := func(what string, v float64) {
				lines = append(lines, count{t.Condition, r.Name, r.Role, what, v})
			}
			add("user_us", r.UserUs)
			add("sys_us", r.SysUs)
			add("voluntary_switches", r.Voluntary)
			add("involuntary_switches", r.Involuntary)
			add("minor_faults", r.MinorFaults)
			add("major_faults", r.MajorFaults)
			for _, name := range slices.Sorted(maps.Keys(r.Calls)) {
				add("call "+name, r.Calls[name])
			}
		}
	}
	return document.WriteCSV(w, leading(a, func(l count) sample.Condition { return l.Condition },
		document.Text("contender", func(l count) string { return l.contender }),
		document.Text("where", func(l count) string { return l.where }),
		document.Text("what", func(l count) string { return l.what }),
		document.Figure("per_request", func(l count) float64 { return l.perRequest }),
	), slices.Values(lines))
}
