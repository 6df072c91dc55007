package gobench

import (
	"fmt"
	"math"
	"slices"

	"github.com/tarehq/tare/internal/lab/stat"
)

// Analysis is a run with the figures and ratios of its samples.
type Analysis struct {
	*Run
	Tables []Table
}

// Table is the rows of a group at one number of threads.
type Table struct {
	Group   *Group
	Procs   int
	Rows    []Row
	Engines []int // indexes of the entrants that have samples here
}

// Row is one benchmark.
type Row struct {
	Name  string
	Cells []Cell // one for each engine, in their order
}

// Cell is one engine's benchmark.
type Cell struct {
	Engine *Entrant
	Trials int           // successful samples
	Ns     stat.Interval // per operation
	Bytes  float64       // median of the allocated bytes per operation
	Allocs float64       // median of the allocations per operation
	Ratio  stat.Interval // its time divided by the control's of the same block; NaN for the control itself

	Failure string // the last failure, or ""

	Published      *Figures
	PublishedRatio float64 // NaN if unknown
}

// Analyze computes the tables of a run.
func Analyze(r *Run) *Analysis {
	a := &Analysis{Run: r}
	for i := range r.Groups {
		for _, procs := range r.Procs {
			t := Table{Group: &r.Groups[i], Procs: procs}
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

func (a *Analysis) cell(e *Entrant, row string, procs int) Cell {
	c := Cell{Engine: e, PublishedRatio: math.NaN()}
	ours, control := a.samples(e.Name, row, procs), a.samples(a.Control, row, procs)
	ns := values(ours, func(f *Figures) float64 { return f.Ns })
	// Warnings about few values are ignored: the width of the interval shows them.
	c.Ns, _ = stat.Median(stat.Known(ns))
	c.Trials = len(stat.Known(ns))
	bytes, _ := stat.Median(stat.Known(values(ours, func(f *Figures) float64 { return f.Bytes })))
	allocs, _ := stat.Median(stat.Known(values(ours, func(f *Figures) float64 { return f.Allocs })))
	c.Bytes, c.Allocs = bytes.Mid, allocs.Mid
	c.Ratio, _ = stat.Median(nil)
	if e.Name != a.Control {
		c.Ratio, _ = stat.Ratio(ns, values(control, func(f *Figures) float64 { return f.Ns }))
	}
	for _, s := range ours {
		if s != nil && s.Failure != "" {
			c.Failure = s.Failure
		}
	}
	if c.Published = a.published(e, row, procs); c.Published != nil {
		if base := a.published(a.control(), row, procs); base != nil && e.Name != a.Control {
			c.PublishedRatio = c.Published.Ns / base.Ns
		}
	}
	return c
}

// samples returns an engine's samples by block; nil if a block has none.
func (a *Analysis) samples(engine, row string, procs int) []*Sample {
	all := make([]*Sample, a.Blocks)
	for i := range a.Samples {
		if s := &a.Samples[i]; s.Engine == engine && s.Row == row && s.Procs == procs {
			all[s.Block-1] = s
		}
	}
	return all
}

// values returns one figure of each sample; NaN if there is none.
func values(samples []*Sample, of func(*Figures) float64) []float64 {
	all := make([]float64, len(samples))
	for i, s := range samples {
		all[i] = math.NaN()
		if s != nil && s.Failure == "" {
			all[i] = of(&s.Figures)
		}
	}
	return all
}

// published returns the write-up's figures of an engine, or nil.
func (a *Analysis) published(e *Entrant, row string, procs int) *Figures {
	if e == nil {
		return nil
	}
	i := slices.IndexFunc(a.Published, func(p Published) bool { return p.Name == e.Prefix+row && p.Procs == procs })
	if i < 0 {
		return nil
	}
	return &a.Published[i].Figures
}

func (a *Analysis) control() *Entrant {
	i := slices.IndexFunc(a.Entrants, func(e Entrant) bool { return e.Name == a.Control })
	if i < 0 {
		return nil
	}
	return &a.Entrants[i]
}

// label returns the name of a row with its condition.
func label(row string, procs int) string { return fmt.Sprintf("%s at GOMAXPROCS %d", row, procs) }
