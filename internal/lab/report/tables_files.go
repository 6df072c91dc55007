package report

import (
	"io"
	"slices"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

const pairsFile = "pairs.csv"

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
	return document.WriteCSV(w, slices.Concat(
		leading(a, func(l line) sample.Condition { return l.Condition },
			document.Text("what", func(l line) string { return l.What }),
			document.Text("of", func(l line) string { return l.Of.Name }),
			document.Text("than", func(l line) string { return l.Than.Name })),
		document.Interval("extra_us", func(l line) stat.Interval { return l.ExtraUs }),
		document.Interval("ratio", func(l line) stat.Interval { return l.Ratio }),
		[]document.Column[line]{document.Text("finding", func(l line) string { return l.Finding.String() })},
		document.Interval("application_ratio", func(l line) stat.Interval { return l.AppRatio }),
	), slices.Values(lines))
}
