package report

import (
	"io"
	"slices"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/stat"
	"github.com/tarehq/tare/internal/lab/table"
)

const (
	pairsFile = "pairs.csv"
	shapeFile = "shape.csv"
)

// writePairs writes the costs of parts, one per line.
func (a *Report) writePairs(w io.Writer) error {
	type line struct {
		sample.Condition
		*analyze.Pair
	}
	var lines []line
	for _, t := range a.Tables {
		for i := range t.Pairs {
			lines = append(lines, line{t.Condition, &t.Pairs[i]})
		}
	}
	return table.WriteCSV(w, slices.Concat(
		leading(a, func(l line) sample.Condition { return l.Condition },
			table.Text("what", func(l line) string { return l.What }),
			table.Text("of", func(l line) string { return l.Of.Name }),
			table.Text("than", func(l line) string { return l.Than.Name })),
		table.Interval("extra_us", func(l line) stat.Interval { return l.ExtraUs }),
		table.Interval("ratio", func(l line) stat.Interval { return l.Ratio }),
		[]table.Column[line]{table.Text("finding", func(l line) string { return l.Finding.String() })},
		table.Interval("application_ratio", func(l line) stat.Interval { return l.AppRatio }),
	), slices.Values(lines))
}

// writeShape writes the published and the measured rates, each with its ratio to its control's. The
// condition of a published rate is empty.
func (a *Report) writeShape(w io.Writer) error {
	type line struct {
		published, contender string
		at                   *sample.Condition // nil of a published rate
		perSecond            float64
		ratio                stat.Interval
	}
	var lines []line
	for _, p := range a.Published {
		lines = append(lines, line{p.Group, p.Contender, nil, p.PerSecond, unbounded(p.Ratio)})
	}
	for i := range a.Tables {
		for _, row := range a.Tables[i].Measured() {
			lines = append(lines, line{"", row.Name, &a.Tables[i].Condition, row.PerSecond.Mid, row.RateRatio})
		}
	}
	columns := leading(a, func(l line) sample.Condition { return *l.at },
		table.Text("contender", func(l line) string { return l.contender }),
		table.Figure("requests_per_sec", func(l line) float64 { return l.perSecond }))
	for i := range columns[1:5] { // those of the condition
		cell := columns[i+1].CSV
		columns[i+1].CSV = func(l line) string {
			if l.at == nil {
				return ""
			}
			return cell(l)
		}
	}
	columns = slices.Insert(columns, 1, table.Text("published", func(l line) string { return l.published }))
	return table.WriteCSV(w, slices.Concat(columns,
		table.Interval("ratio", func(l line) stat.Interval { return l.ratio })), slices.Values(lines))
}
