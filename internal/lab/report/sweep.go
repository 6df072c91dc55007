package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/page"
	loadreport "github.com/tarehq/tare/load/report"
)

// sweepTitle returns the name of an axis, and the position of a condition on it.
func sweepTitle(axis string, c sample.Condition) (title string, value int) {
	switch axis {
	case sample.GOMAXPROCS:
		return "GOMAXPROCS, or number of processes", c.Procs
	case sample.Workers:
		return "nginx's workers", c.Workers
	}
	return "Connections", c.Connections
}

// addSweeps adds the results of the sweeps.
func (a *Report) addSweeps(d *document.Document) {
	for i := range a.Sweeps {
		s := &a.Sweeps[i]
		title, _ := sweepTitle(s.Axis, s.Conditions[0])
		others := s.Conditions[0]
		others.Procs, others.Workers = 0, 0
		with := others.Text()
		if s.Axis == sample.Connections {
			_, with, _ = strings.Cut(with, " and ")
		}
		figures, failures := a.sweepTable(i)
		id := ""
		if i == 0 {
			id = "sweeps"
		}
		d.Add(document.Heading{Level: 2, Text: title, ID: id}, document.Note(fmt.Sprintf(
			"With %s, at saturation; %s of %v in random order. Figures are medians of the blocks. The tables above do not include these trials.",
			with, sample.BlocksText(s.Blocks), s.Measure)),
			document.Chart{Drawing: a.sweepPlot(i).Drawing()}, figures, document.Warnings(failures))
	}
}

// sweepTable returns the costs and the rates of each contender, in two lines, and what failed.
func (a *Report) sweepTable(i int) (t *document.Table, failures []string) {
	heads, tables := []string{"", ""}, a.SweepTables[i]
	for j := range tables {
		_, value := sweepTitle(a.Sweeps[i].Axis, tables[j].Condition)
		heads = append(heads, fmt.Sprint(value))
		for _, row := range tables[j].Rows {
			if len(row.Failures) > 0 {
				failures = append(failures, fmt.Sprintf("%s failed with %d: %s.", row.Title, value, firstLine(row.Failures[0])))
			}
		}
	}
	t = document.NewTable(2, heads, nil)
	for _, name := range a.Sweeps[i].Contenders {
		costs, rates := []string{a.TitleOf(name), "µs/request"}, []string{"", "requests/s"}
		for j := range tables {
			cost, rate := "", ""
			switch row := tables[j].Named(name); {
			case row == nil:
			case row.Trials == 0:
				cost = "failed"
			default:
				cost, rate = fixed(2, row.WeightUs.Mid), loadreport.Count(row.PerSecond.Mid)
			}
			costs, rates = append(costs, cost), append(rates, rate)
		}
		t.Add("", costs...)
		t.Add("", rates...)
	}
	return t, failures
}

// sweepPlot draws the CPU time of a request along the axis, whose values are equally far apart.
func (a *Report) sweepPlot(i int) *page.Plot {
	s, tables := &a.Sweeps[i], a.SweepTables[i]
	var rows []*analyze.Row
	for _, name := range s.Contenders {
		rows = append(rows, &analyze.Row{Entrant: a.Entrant(name)})
	}
	x, y := page.Axis{Max: float64(max(1, len(tables)-1))}, page.Axis{Max: 1e-3}
	for j := range tables {
		for _, row := range tables[j].Measured() {
			y.Max = math.Max(y.Max, 1.05*row.WeightUs.Mid)
		}
	}
	p := newCurves(&x, &y, rows)
	p.Up, p.Y = "µs of CPU time per request", page.VerticalTicks(y, loadreport.Count)
	for j := range tables {
		title, value := sweepTitle(s.Axis, tables[j].Condition)
		p.Unit, p.X = title, append(p.X, page.Tick{At: x.At(float64(j)), Label: fmt.Sprint(value)})
	}
	for _, of := range rows {
		var spots []page.Spot
		for j := range tables {
			if row := tables[j].Named(of.Name); row != nil && row.Trials > 0 {
				title := fmt.Sprintf("%s, %s: %s", row.Title, p.X[j].Label, micros(row.WeightUs.Mid))
				spots = append(spots, page.Spot{X: p.X[j].At, Y: y.At(row.WeightUs.Mid), Title: title})
				p.Alt += title + ". "
			}
		}
		p.Lines = append(p.Lines, a.curve(of.Entrant, spots))
	}
	p.NameLines()
	return p
}
