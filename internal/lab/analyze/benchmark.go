package analyze

import (
	"fmt"
	"math"
	"slices"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/stat"
)

// EngineTable is the results of a group of benchmarks with one number of threads.
type EngineTable struct {
	Group *sample.Group
	Procs int
	Rows  []EngineRow // by benchmark; without those that neither ran nor were published
}

// EngineRow is the result of one benchmark of an entrant.
type EngineRow struct {
	*sample.Entrant
	Benchmark string
	Procs     int
	Trials    int // successful ones

	// Times, bytes and allocations are for each operation. Ratio is of the time to the control's,
	// by blocks; the control has none.
	Ns     stat.Interval
	Bytes  float64
	Allocs float64
	Ratio  stat.Interval

	Failure string // the last one, or ""

	Published      *sample.PublishedBenchmark
	PublishedRatio float64 // NaN if unknown
}

// Label names the row's benchmark and its condition.
func (r *EngineRow) Label() string {
	return fmt.Sprintf("%s at GOMAXPROCS %d", r.Benchmark, r.Procs)
}

// benchmarks returns the tables of a run of benchmarks that have no targets.
func benchmarks(run *sample.Run) (tables []EngineTable) {
	for i := range run.Benchmarks.Groups {
		for _, procs := range run.Benchmarks.Procs {
			t := EngineTable{Group: &run.Benchmarks.Groups[i], Procs: procs}
			for _, name := range t.Group.Rows {
				for j := range run.Entrants {
					row := benchmark(run, &run.Entrants[j], name, procs)
					if row.Trials > 0 || row.Failure != "" {
						t.Rows = append(t.Rows, row)
					}
				}
			}
			tables = append(tables, t)
		}
	}
	return tables
}

// benchmark returns the result of an entrant.
func benchmark(run *sample.Run, e *sample.Entrant, name string, procs int) EngineRow {
	c := sample.Condition{Procs: procs, Scenario: sample.Scenario{Name: name}}
	of, than := perBlock(run, e, c), perBlock(run, run.Control(), c)
	ns := stat.Known(values(of, sample.Ns.Of))
	row := EngineRow{
		Entrant: e, Benchmark: name, Procs: procs, Trials: len(ns), Ns: stat.Median(ns),
		Bytes: median(of, sample.BytesAllocated.Of), Allocs: median(of, sample.Allocations.Of),
		Ratio: stat.Interval{Mid: math.NaN()}, PublishedRatio: math.NaN(),
	}
	for i := range run.Records {
		if r := &run.Records[i]; r.Contender == e.Name && r.Condition == c && r.Failure != "" {
			row.Failure = r.Failure
		}
	}
	row.Published = published(run, e, name, procs)
	if e.Kind == sample.Control {
		return row
	}
	row.Ratio = metricRatio(sample.Ns, of, than)
	if base := published(run, run.Control(), name, procs); base != nil && row.Published != nil {
		row.PublishedRatio = row.Published.Ns / base.Ns
	}
	return row
}

// published returns the write-up's figures of an entrant, or nil.
func published(run *sample.Run, e *sample.Entrant, name string, procs int) *sample.PublishedBenchmark {
	if e == nil {
		return nil
	}
	i := slices.IndexFunc(run.Benchmarks.Published, func(p sample.PublishedBenchmark) bool {
		return p.Name == e.Prefix+name && p.Procs == procs
	})
	if i < 0 {
		return nil
	}
	return &run.Benchmarks.Published[i]
}
