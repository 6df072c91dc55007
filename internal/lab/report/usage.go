package report

import (
	"fmt"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
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
	calls := document.NewTable(2, append([]string{"system calls", "role"}, t.Usage.CallNames...), nil)
	calls.Heads = append(calls.Heads, document.Head{Text: "all calls"})
	rest := document.NewTable(2, []string{"", "role", "user, µs", "system, µs", "switches\nwaiting", "switches\nforced",
		"page faults\nminor", "page faults\nmajor"}, nil)
	for _, r := range t.Usage.Rows {
		rest.Add(string(r.Row.Kind), r.Row.Title, r.Role, fixed(2, r.UserUs), fixed(2, r.SysUs), fixed(3, r.Voluntary),
			fixed(3, r.Involuntary), fixed(3, r.MinorFaults), fixed(3, r.MajorFaults))
		if r.Calls == nil {
			continue
		}
		calls.Add(string(r.Row.Kind), r.Row.Title, r.Role)
		line := &calls.Lines[len(calls.Lines)-1]
		for _, name := range t.Usage.CallNames {
			line.Cells = append(line.Cells, document.Cell{Text: perCall(r.Calls[name]), Class: heat(r.Calls[name])})
		}
		line.Cells = append(line.Cells, document.Cell{Text: fixed(2, r.AllCalls())})
	}
	var blocks []document.Block
	if len(t.Usage.CallNames) > 0 {
		blocks = append(blocks, document.Heading{Level: 4, Text: "System calls"}, calls)
	}
	blocks = append(blocks, document.Heading{Level: 4, Text: "CPU time, switches and page faults"}, rest, document.Note(
		"All figures are per request. CPU time, switches and page faults are medians of the timed trials; a major fault reads a page from disk. The kernel counted system calls in a separate trial after the timed ones, because counting costs time. The generator's part includes all of tare."))
	return []document.Block{onPage(blocks...), document.Warnings(t.Usage.Missing)}
}
