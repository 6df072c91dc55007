package report

import (
	"slices"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
)

// Warning is a warning with the rows that it concerns.
type Warning struct {
	Text string
	Of   []*analyze.Row
	all  int // the number of rows that were measured
}

// Warnings returns the warnings of a table's rows, each text once.
func (t *Table) Warnings() []Warning {
	return t.warnings(func(row *analyze.Row) []string { return row.Warnings })
}

// limits returns why contenders that are a choice for a reader were measured alone, failed, or have
// no interval.
func (t *Table) limits() []Warning {
	return t.warnings(func(row *analyze.Row) []string {
		if isAside(row.Kind) {
			return nil
		}
		return row.Limits
	})
}

func (t *Table) warnings(of func(*analyze.Row) []string) (all []Warning) {
	for i := range t.Rows {
		row := &t.Rows[i]
		for _, text := range of(row) {
			at := slices.IndexFunc(all, func(w Warning) bool { return w.Text == text })
			if at < 0 {
				at = len(all)
				all = append(all, Warning{Text: text, all: len(t.Measured())})
			}
			all[at].Of = append(all[at].Of, row)
		}
	}
	return all
}

// Line returns the warning as a line.
func (w *Warning) Line() string { return w.Contenders() + ": " + w.Text }

// Contenders returns the titles of the contenders that the warning concerns.
func (w *Warning) Contenders() string {
	if len(w.Of) > 1 && len(w.Of) == w.all {
		return "All contenders"
	}
	return sample.List(titles(w.Of))
}
