package report

import (
	"fmt"
	"slices"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
)

// perCall formats a count for a table. Negligible counts are "".
func perCall(n float64) string {
	if n < 0.005 {
		return ""
	}
	return fixed(2, n)
}

// heat returns the CSS class of a cell: the higher the count, the darker.
func heat(n float64) string {
	level := 0
	for _, from := range []float64{analyze.LeastCalls, 0.5, 1.5, 3, 6} {
		if n >= from {
			level++
		}
	}
	return fmt.Sprintf("heat-%d", level)
}

func (t *Table) usage() []document.Block {
	names := t.CallNames()
	calls := document.NewTable(2, append([]string{"system calls", "role"}, names...), nil)
	calls.Heads = append(calls.Heads, document.Head{Text: "all calls"})
	rest := document.NewTable(2, []string{"", "role", "user, µs", "system, µs", "switches\nwaiting", "switches\nforced",
		"page faults\nminor", "page faults\nmajor"}, nil)
	for _, row := range t.Measured() {
		if row.Kind == sample.Twin {
			continue
		}
		for _, p := range slices.Concat(row.Parts, row.Loading) {
			rest.Add(string(row.Kind), row.Title, p.Role, fixed(2, p.UserUs), fixed(2, p.SysUs), fixed(3, p.Voluntary),
				fixed(3, p.Involuntary), fixed(3, p.MinorFaults), fixed(3, p.MajorFaults))
			if p.Calls == nil {
				continue
			}
			calls.Add(string(row.Kind), row.Title, p.Role)
			line := &calls.Lines[len(calls.Lines)-1]
			for _, name := range names {
				line.Cells = append(line.Cells, document.Cell{Text: perCall(p.Calls[name]), Class: heat(p.Calls[name])})
			}
			line.Cells = append(line.Cells, document.Cell{Text: fixed(2, p.AllCalls())})
		}
	}
	var blocks []document.Block
	if len(names) > 0 {
		blocks = append(blocks, document.Heading{Level: 4, Text: "System calls"}, calls)
	}
	blocks = append(blocks, document.Heading{Level: 4, Text: "CPU time, switches and page faults"}, rest, document.Note(
		"All figures are per request. CPU time, switches and page faults are medians of the timed trials; a major fault reads a page from disk. The kernel counted system calls in a separate trial after the timed ones, because counting costs time. The generator's part includes all of tare."))
	return []document.Block{onPage(blocks...), document.Warnings(t.Missing)}
}
