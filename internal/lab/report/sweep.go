package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/table"
	loadreport "github.com/tarehq/tare/load/report"
)

// sweep is the result of a sweep with its texts and charts.
type sweep struct {
	*analyze.SweepResult
	report *Report
}

// SweepResults returns the results of the run's sweeps.
func (a *Report) SweepResults() (all []*sweep) {
	results := a.Analysis.SweepResults()
	for i := range results {
		all = append(all, &sweep{&results[i], a})
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

// writeSweepResults writes the results of the sweeps.
func (a *Report) writeSweepResults(d *table.Document) {
	for _, s := range a.SweepResults() {
		d.Heading("%s (with %s, %s of %v): µs/request and requests/s", s.Title(), s.OtherConditions(),
			sample.BlocksText(s.Blocks), s.Measure)
		var lines [][]string
		for _, line := range s.Lines {
			for i, cells := range sweepCells(&line) {
				lines = append(lines, append([]string{[]string{line.Title, ""}[i]}, cells...))
			}
		}
		d.Table(1, append([]string{""}, s.Labels...), lines)
		d.Paragraph(strings.Join(s.Sentences(), " "))
	}
}

// sweepCells returns the weights in the first row and the rates in the second.
func sweepCells(l *analyze.SweepLine) [][]string {
	rows := make([][]string, 2)
	for _, p := range l.Points {
		if p.Trials == 0 {
			rows[0], rows[1] = append(rows[0], "failed"), append(rows[1], "")
			continue
		}
		rows[0], rows[1] = append(rows[0], fmt.Sprintf("%.2f", p.WeightUs.Mid)),
			append(rows[1], loadreport.Count(p.PerSecond.Mid))
	}
	return rows
}

// sweepsFile has every point of every sweep.
const sweepsFile = "sweeps.csv"

// writeSweeps writes the results, one per line. Bounds are the lowest and the highest trial.
func (a *Report) writeSweeps(w io.Writer) error {
	type line struct {
		axis, contender string
		sample.Condition
		*analyze.SweepPoint
	}
	var lines []line
	for _, s := range a.SweepResults() {
		for _, l := range s.Lines {
			for i := range l.Points {
				lines = append(lines, line{s.Axis, l.Name, s.Conditions[i], &l.Points[i]})
			}
		}
	}
	figure := func(name string, of func(line) float64) table.Column[line] {
		return table.Text(name, func(l line) string {
			if l.Trials == 0 {
				return ""
			}
			return table.Number(of(l))
		})
	}
	return table.WriteCSV(w, []table.Column[line]{
		table.Text("experiment", func(line) string { return a.Experiment }),
		table.Text("axis", func(l line) string { return l.axis }),
		table.Text("value", func(l line) string { return l.Label }),
		table.Count("cores", func(l line) int { return l.Cores }),
		table.Count("connections", func(l line) int { return l.Connections }),
		table.Count("gomaxprocs", func(l line) int { return l.Procs }),
		table.Count("workers", func(l line) int { return l.Workers }),
		table.Text("contender", func(l line) string { return l.contender }),
		table.Count("trials", func(l line) int { return l.Trials }),
		figure("weight_us", func(l line) float64 { return l.WeightUs.Mid }),
		figure("weight_us_min", func(l line) float64 { return l.WeightUs.Lo }),
		figure("weight_us_max", func(l line) float64 { return l.WeightUs.Hi }),
		figure("requests_per_sec", func(l line) float64 { return l.PerSecond.Mid }),
		figure("requests_per_sec_min", func(l line) float64 { return l.PerSecond.Lo }),
		figure("requests_per_sec_max", func(l line) float64 { return l.PerSecond.Hi }),
		table.Text("failure", func(l line) string { return firstLine(l.Failure) }),
	}, slices.Values(lines))
}
