package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/page"
	loadreport "github.com/tarehq/tare/load/report"
)

// sweep is a table for each condition of a sweep, with texts and a chart.
type sweep struct {
	*sample.Sweep
	tables []Table
	report *Report
}

// SweepResults returns the results of the run's sweeps.
func (a *Report) SweepResults() (all []*sweep) {
	for i := range a.Sweeps {
		s := &sweep{Sweep: &a.Sweeps[i], report: a}
		for j := range a.SweepTables[i] {
			s.tables = append(s.tables, Table{&a.SweepTables[i][j]})
		}
		all = append(all, s)
	}
	return all
}

// Title returns the name of the axis.
func (s *sweep) Title() string {
	switch s.Axis {
	case sample.GOMAXPROCS:
		return "GOMAXPROCS, or number of processes"
	case sample.Workers:
		return "nginx's workers"
	}
	return "Connections"
}

// OtherConditions describes the conditions without the axis.
func (s *sweep) OtherConditions() string {
	c := s.Conditions[0]
	c.Procs, c.Workers = 0, 0
	if s.Axis != sample.Connections {
		return c.Text()
	}
	_, cores, _ := strings.Cut(c.Text(), " and ")
	return cores
}

// value returns the position of a condition on the axis.
func (s *sweep) value(c sample.Condition) int {
	switch s.Axis {
	case sample.GOMAXPROCS:
		return c.Procs
	case sample.Workers:
		return c.Workers
	}
	return c.Connections
}

// Heads returns the head of the sweep's table: a column for each condition.
func (s *sweep) Heads() []string {
	heads := []string{"", ""}
	for _, c := range s.Conditions {
		heads = append(heads, fmt.Sprint(s.value(c)))
	}
	return heads
}

// Lines returns the costs and the rates of each contender, in two lines.
func (s *sweep) Lines() (lines [][]string) {
	for _, name := range s.Contenders {
		costs, rates := []string{s.report.TitleOf(name), "µs/request"}, []string{"", "requests/s"}
		for i := range s.tables {
			cost, rate := "", ""
			switch row := s.tables[i].Named(name); {
			case row == nil:
			case row.Trials == 0:
				cost = "failed"
			default:
				cost, rate = fixed(2, row.WeightUs.Mid), loadreport.Count(row.PerSecond.Mid)
			}
			costs, rates = append(costs, cost), append(rates, rate)
		}
		lines = append(lines, costs, rates)
	}
	return lines
}

// Failures returns what failed and where.
func (s *sweep) Failures() (all []string) {
	for i := range s.tables {
		for _, row := range s.tables[i].Rows {
			if len(row.Failures) > 0 {
				all = append(all, fmt.Sprintf("%s failed with %d: %s.", row.Title, s.value(s.Conditions[i]),
					firstLine(row.Failures[0])))
			}
		}
	}
	return all
}

// Plot draws the CPU time of a request along the axis.
func (s *sweep) Plot() *page.Plot {
	var rows []*analyze.Row
	most := 0.0
	for _, name := range s.Contenders {
		rows = append(rows, &analyze.Row{Entrant: s.report.Entrant(name)})
	}
	for i := range s.tables {
		for _, row := range s.tables[i].Measured() {
			most = math.Max(most, row.WeightUs.Mid)
		}
	}
	x, places := s.places()
	y := page.Axis{Max: math.Max(most*1.05, 1e-3)}
	p := newCurves(&x, &y, rows)
	p.Unit, p.Up = s.Title(), "µs of CPU time per request"
	p.Y = page.VerticalTicks(y, loadreport.Count)
	for i, place := range places {
		p.X = append(p.X, page.Tick{At: x.At(place), Label: s.Heads()[2+i]})
	}
	for _, of := range rows {
		var spots []page.Spot
		for i := range s.tables {
			if row := s.tables[i].Named(of.Name); row != nil && row.Trials > 0 {
				title := fmt.Sprintf("%s, %s: %s", row.Title, p.X[i].Label, micros(row.WeightUs.Mid))
				spots = append(spots, page.Spot{X: p.X[i].At, Y: y.At(row.WeightUs.Mid), Title: title})
				p.Alt += title + ". "
			}
		}
		p.Lines = append(p.Lines, s.report.curve(of.Entrant, spots))
	}
	p.NameLines()
	return p
}

// places returns the horizontal axis and the positions of the conditions. Connections are on a
// logarithmic axis, other values are equally far apart.
func (s *sweep) places() (x page.Axis, places []float64) {
	for i, c := range s.Conditions {
		place := float64(i)
		if s.Axis == sample.Connections {
			place = float64(c.Connections)
		}
		places = append(places, place)
	}
	x = page.Axis{Min: places[0], Max: slices.Max(places), Log: s.Axis == sample.Connections}
	if len(places) == 1 {
		x.Max = 2*x.Max + 1
	}
	return x, places
}
