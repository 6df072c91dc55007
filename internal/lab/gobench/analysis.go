package gobench

import (
	"fmt"
	"math"
	"slices"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/stat"
)

// Analysis is a run with the figures and ratios of its records.
type Analysis struct {
	*sample.Run
	Tables []Table
}

// Table is the rows of a group at one number of threads.
type Table struct {
	Group   *sample.Group
	Procs   int
	Rows    []Row
	Engines []int // indexes of the entrants that have records here
}

// Row is one benchmark.
type Row struct {
	Name  string
	Cells []Cell // one for each engine, in their order
}

// Cell is one engine's benchmark.
type Cell struct {
	Engine *sample.Entrant
	Trials int           // successful records
	Ns     stat.Interval // per operation
	Bytes  float64       // median of the allocated bytes per operation
	Allocs float64       // median of the allocations per operation
	Ratio  stat.Interval // its time divided by the control's of the same block; NaN for the control itself

	Failure string // the last failure, or ""

	Published      *sample.PublishedBenchmark
	PublishedRatio float64 // NaN if unknown
}

// Analyze computes the tables of a run.
func Analyze(r *sample.Run) *Analysis {
	a := &Analysis{Run: r}
	for i := range r.Benchmarks.Groups {
		for _, procs := range r.Benchmarks.Procs {
			t := Table{Group: &r.Benchmarks.Groups[i], Procs: procs}
			for _, name := range t.Group.Rows {
				row := Row{Name: name}
				for j := range r.Entrants {
					row.Cells = append(row.Cells, a.cell(&r.Entrants[j], name, procs))
				}
				t.Rows = append(t.Rows, row)
			}
			for i := range r.Entrants {
				if slices.ContainsFunc(t.Rows,
					func(row Row) bool { return row.Cells[i].Trials > 0 || row.Cells[i].Failure != "" }) {
					t.Engines = append(t.Engines, i)
				}
			}
			a.Tables = append(a.Tables, t)
		}
	}
	return a
}

// The units of the tables' figures.
const (
	nsUnit     sample.Metric = "ns/op"
	bytesUnit  sample.Metric = "B/op"
	allocsUnit sample.Metric = "allocs/op"
)

func (a *Analysis) cell(e *sample.Entrant, row string, procs int) Cell {
	c := Cell{Engine: e, PublishedRatio: math.NaN()}
	isControl := e.Kind == sample.Control
	ours, control := a.records(e, row, procs), a.records(a.Control(), row, procs)
	ns := values(ours, nsUnit)
	// Warnings about few values are ignored: the width of the interval shows them.
	c.Ns, _ = stat.Median(stat.Known(ns))
	c.Trials = len(stat.Known(ns))
	bytes, _ := stat.Median(stat.Known(values(ours, bytesUnit)))
	allocs, _ := stat.Median(stat.Known(values(ours, allocsUnit)))
	c.Bytes, c.Allocs = bytes.Mid, allocs.Mid
	c.Ratio, _ = stat.Median(nil)
	if !isControl {
		c.Ratio, _ = stat.Ratio(ns, values(control, nsUnit))
	}
	for _, r := range ours {
		if r != nil && r.Failure != "" {
			c.Failure = r.Failure
		}
	}
	if c.Published = a.published(e, row, procs); c.Published != nil {
		if base := a.published(a.Control(), row, procs); base != nil && !isControl {
			c.PublishedRatio = c.Published.Ns / base.Ns
		}
	}
	return c
}

// records returns an engine's records by block; nil if a block has none.
func (a *Analysis) records(e *sample.Entrant, row string, procs int) []*sample.Record {
	all := make([]*sample.Record, a.Blocks)
	for i := range a.Records {
		if r := &a.Records[i]; e != nil && r.Contender == e.Name && r.Scenario.Name == row && r.Procs == procs {
			all[r.Block-1] = r
		}
	}
	return all
}

// values returns one figure of each record; NaN if there is none.
func values(records []*sample.Record, of sample.Metric) []float64 {
	all := make([]float64, len(records))
	for i, r := range records {
		all[i] = math.NaN()
		if r != nil && r.Failure == "" {
			all[i] = of.Of(r)
		}
	}
	return all
}

// published returns the write-up's figures of an engine, or nil.
func (a *Analysis) published(e *sample.Entrant, row string, procs int) *sample.PublishedBenchmark {
	if e == nil {
		return nil
	}
	i := slices.IndexFunc(a.Benchmarks.Published, func(p sample.PublishedBenchmark) bool {
		return p.Name == e.Prefix+row && p.Procs == procs
	})
	if i < 0 {
		return nil
	}
	return &a.Benchmarks.Published[i]
}

// label returns the name of a row with its condition.
func label(row string, procs int) string { return fmt.Sprintf("%s at GOMAXPROCS %d", row, procs) }
