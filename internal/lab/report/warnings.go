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
func (t *Table) Warnings() (all []Warning) {
	for i := range t.Rows {
		row := &t.Rows[i]
		for _, text := range row.Warnings {
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

// Contenders returns the titles of the contenders that the warning concerns.
func (w *Warning) Contenders() string {
	if len(w.Of) > 1 && len(w.Of) == w.all {
		return "All contenders"
	}
	return sample.List(titles(w.Of))
}
