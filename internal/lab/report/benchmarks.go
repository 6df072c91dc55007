package report

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/stat"
	"github.com/tarehq/tare/internal/lab/table"
)

// benchmarkRows returns the rows of all tables of benchmarks.
func (a *Report) benchmarkRows() iter.Seq[analyze.EngineRow] {
	return func(yield func(analyze.EngineRow) bool) {
		for _, t := range a.EngineTables {
			for _, row := range t.Rows {
				if !yield(row) {
					return
				}
			}
		}
	}
}

// benchmarkColumns returns the columns of the tables of benchmarks. Figures are for each operation.
func (a *Report) benchmarkColumns() []table.Column[analyze.EngineRow] {
	type row = analyze.EngineRow
	whole := func(of func(row) float64) func(row) string {
		return func(r row) string {
			if table.Number(of(r)) == "" {
				return ""
			}
			return fixed(0, of(r))
		}
	}
	bytes, allocs := func(r row) float64 { return r.Bytes }, func(r row) float64 { return r.Allocs }
	ns := table.Interval("ns_per_op", func(r row) stat.Interval { return r.Ns })
	ns[0] = ns[0].For(always, "ns/op", nsText)
	ratio := table.Interval("ratio", func(r row) stat.Interval { return r.Ratio })
	ratio[0] = ratio[0].For(always, "times", func(r row) string { return times(r.Ratio.Mid) })
	ratio[1] = ratio[1].For(always, confidence()+"\ninterval", func(r row) string { return intervalText(r.Ratio) })
	engine := table.Text("engine", func(r row) string { return r.Name }).
		For(always, "", func(r row) string { return r.Title })
	engine.Class = func(row) string { return "wrap" } // on the left, as text
	finding := table.Text("finding", func(r row) string { return r.Ratio.Finding().String() })
	ratio[0].Class = finding.CSV
	published := func(name string, of func(*sample.PublishedBenchmark) float64) table.Column[row] {
		return table.Text(name, func(r row) string {
			if r.Published == nil {
				return ""
			}
			return table.Number(of(r.Published))
		})
	}
	return slices.Concat([]table.Column[row]{
		table.Text("experiment", func(row) string { return a.Experiment }),
		table.Count("gomaxprocs", func(r row) int { return r.Procs }),
		table.Text("benchmark", func(r row) string { return r.Benchmark }).
			For(always, "", func(r row) string { return r.Benchmark }),
		engine,
		table.Count("trials", func(r row) int { return r.Trials }),
	}, ns, []table.Column[row]{
		table.Figure("bytes_per_op", bytes).For(detailed, "B/op", whole(bytes)),
		table.Figure("allocs_per_op", allocs).For(detailed, "allocs/op", whole(allocs)),
	}, ratio, []table.Column[row]{
		finding,
		published("published_ns_per_op", func(p *sample.PublishedBenchmark) float64 { return p.Ns }),
		published("published_bytes_per_op", func(p *sample.PublishedBenchmark) float64 { return p.Bytes }),
		published("published_allocs_per_op", func(p *sample.PublishedBenchmark) float64 { return p.Allocs }),
		table.Figure("published_ratio", func(r row) float64 { return r.PublishedRatio }).
			For(detailed, "published", func(r row) string { return times(r.PublishedRatio) }),
	})
}

// benchmarkLeft is the number of columns that are aligned on the left.
const benchmarkLeft = 2

// nsText returns the time of an operation as text, or "failed".
func nsText(r analyze.EngineRow) string {
	switch {
	case r.Trials == 0:
		return "failed"
	case r.Ns.Mid < 100:
		return fixed(1, r.Ns.Mid)
	}
	return fixed(0, r.Ns.Mid)
}

// benchmarkTitle returns the heading of a table.
func benchmarkTitle(t *analyze.EngineTable) string {
	return fmt.Sprintf("%s, GOMAXPROCS %d", t.Group.Title, t.Procs)
}

// writeBenchmarks writes the tables of benchmarks.
func (a *Report) writeBenchmarks(d *table.Document) {
	for i := range a.EngineTables {
		t := &a.EngineTables[i]
		d.Heading("%s: for each operation; times is its time divided by %s's", benchmarkTitle(t), a.Control().Title)
		heads, lines := table.Shown(table.Terminal, a.benchmarkColumns(), slices.Values(t.Rows))
		d.Table(benchmarkLeft, heads, lines)
	}
}

// benchmarkResult returns the figures of a record in Go's benchmark format.
func (a *Report) benchmarkResult(r *sample.Record) *benchfmt.Result {
	name := a.Entrant(r.Contender).Prefix + r.Scenario.Name
	if r.Procs > 1 {
		name += fmt.Sprintf("-%d", r.Procs)
	}
	result := &benchfmt.Result{Name: benchfmt.Name(name), Iters: r.Iterations}
	for unit, value := range r.Values {
		result.Values = append(result.Values, benchfmt.Value{Value: value, Unit: unit})
	}
	slices.SortFunc(result.Values, func(x, y benchfmt.Value) int { return strings.Compare(x.Unit, y.Unit) })
	return result
}

// benchmarkProblems returns a line for each benchmark that failed or does not exist.
func (a *Report) benchmarkProblems() (all []string) {
	if a.Benchmarks == nil {
		return nil
	}
	for _, e := range a.Entrants {
		for _, g := range a.Benchmarks.Groups {
			lacking := slices.DeleteFunc(slices.Clone(g.Rows),
				func(row string) bool { return !slices.Contains(e.Lacking, row) })
			switch len(lacking) {
			case 0:
			case len(g.Rows):
				all = append(all, fmt.Sprintf("%s has no benchmarks of %q", e.Title, g.Title))
			default:
				all = append(all, fmt.Sprintf("%s has no benchmark of %s", e.Title, strings.Join(lacking, ", ")))
			}
		}
	}
	for row := range a.benchmarkRows() {
		if row.Failure != "" {
			all = append(all, fmt.Sprintf("FAILED: %s of %s: %s", row.Label(), row.Title, row.Failure))
		}
	}
	return all
}

// EngineChart shows the ratios of a table with their intervals, and the published ones. It is nil
// if there is none.
func (a *Report) EngineChart(t *analyze.EngineTable) *chart {
	shown := slices.DeleteFunc(slices.Clone(t.Rows),
		func(r analyze.EngineRow) bool { return math.IsNaN(r.Ratio.Mid) })
	if len(shown) == 0 {
		return nil
	}
	var all []float64
	for _, r := range shown {
		all = append(all, r.Ratio.Lo, r.Ratio.Mid, r.Ratio.Hi, r.PublishedRatio)
	}
	c := newRatioChart(all, fmt.Sprintf("times %s's time (left is faster)", a.Control().Title))
	isPublished := false
	for _, r := range shown {
		row := c.addRow(r.Benchmark+", "+r.Title, "", string(r.Kind))
		if v := finite(r.PublishedRatio); v > 0 {
			isPublished = true
			row.Dots = append(row.Dots, mark{Class: "published", X0: c.axis.At(v), Title: "published: " + times(v)})
		}
		c.addRatio(row, r.Title, r.Ratio, max(r.Ratio.Mid, finite(r.PublishedRatio)))
	}
	if isPublished {
		c.Legend = []mark{{Class: "published", Text: "published"}, {Class: "median", Text: "here"}}
	}
	return c
}
