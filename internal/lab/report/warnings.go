package report

import "slices"

// Warning is a warning with the rows that it concerns.
type Warning struct {
	Text string
	Of   []*Row
}

// Warnings returns the warnings of a table's rows, each text once.
func (t *Table) Warnings() (all []Warning) {
	for i := range t.Rows {
		row := &t.Rows[i]
		for _, text := range row.Warnings {
			at := slices.IndexFunc(all, func(w Warning) bool { return w.Text == text })
			if at < 0 {
				at = len(all)
				all = append(all, Warning{Text: text})
			}
			all[at].Of = append(all[at].Of, row)
		}
	}
	return all
}

// Contenders returns the titles of the contenders that the warning concerns.
func (w *Warning) Contenders() string {
	titles := make([]string, len(w.Of))
	for i, row := range w.Of {
		titles[i] = row.Title
	}
	return list(titles)
}
