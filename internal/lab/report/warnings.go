package report

import (
	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
)

// warnings returns the warnings of a table's rows, each text once.
func (t *Table) warnings() []string {
	return t.grouped(func(row *analyze.Row) []string { return row.Warnings })
}

// limits returns why contenders that are a choice for a reader were measured alone, failed, or have
// no interval.
func (t *Table) limits() []string {
	return t.grouped(func(row *analyze.Row) []string {
		if isAside(row.Kind) {
			return nil
		}
		return row.Limits
	})
}

// grouped returns texts of the rows, each once with the contenders that it concerns.
func (t *Table) grouped(of func(*analyze.Row) []string) (lines []string) {
	var texts []string
	titles := make(map[string][]string)
	for i := range t.Rows {
		for _, text := range of(&t.Rows[i]) {
			if titles[text] == nil {
				texts = append(texts, text)
			}
			titles[text] = append(titles[text], t.Rows[i].Title)
		}
	}
	for _, text := range texts {
		contenders := sample.List(titles[text])
		if n := len(titles[text]); n > 1 && n == len(t.Measured()) {
			contenders = "All contenders"
		}
		lines = append(lines, contenders+": "+text)
	}
	return lines
}
