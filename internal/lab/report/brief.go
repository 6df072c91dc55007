package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
	loadreport "github.com/tarehq/tare/load/report"
)

const (
	screenWidth = 80 // of a terminal, in columns
	minLabel    = 12
	earlyLines  = 18 // of a table that is drawn again and again
)

// Brief returns what a reader wants first: the verdict, the most important columns of the first
// condition, and problems.
func (a *Report) Brief() string {
	blocks := []document.Block{document.Paragraph{Text: a.comparison()}, document.Paragraph{Text: a.Others()}}
	problems := a.Problems()
	switch {
	case len(a.Targets) > 0:
		blocks = append(blocks, a.targetTable())
	case a.Events != nil:
		blocks = append(blocks, a.caseTables(true)...)
	case len(a.Tables) > 0:
		t := &a.Tables[0]
		blocks = append(blocks, a.briefTable(t)...)
		problems = append(problems, t.limits()...)
	}
	return screen(append(blocks, document.Lines(problems))...)
}

// Early returns the first table of a run that has not ended, after some blocks.
func (a *Report) Early() string {
	if len(a.Tables) == 0 {
		return ""
	}
	t := &a.Tables[0]
	head := document.Heading{Text: fmt.Sprintf("After %s, with %s:", loadreport.Plural(a.Blocks, "block"), t.Text())}
	results := a.results(t)
	results.Lines = results.Lines[:min(len(results.Lines), earlyLines)]
	return screen(head, results)
}

// results returns the most important columns of a table.
func (a *Report) results(t *Table) *document.Table {
	rows := slices.DeleteFunc(t.lines(), func(l rowLine) bool { return isAside(l.Kind) })
	shown := document.Rows(true, 1, a.resultColumns(), rows, nil)
	for i := range shown.Heads { // the screen has room for the last line of a head
		shown.Heads[i].Text = shown.Heads[i].Text[strings.LastIndexByte(shown.Heads[i].Text, '\n')+1:]
	}
	shortenLabels(shown)
	return shown
}

// briefTable returns the change between two builds, or the results of a table.
func (a *Report) briefTable(t *Table) []document.Block {
	if t.Changes == nil {
		return []document.Block{document.Heading{Text: "With " + t.Text() + ":"}, a.results(t)}
	}
	d := new(document.Document)
	t.addBuilds(d)
	return d.Blocks
}

// screen returns blocks as text for a terminal.
func screen(blocks ...document.Block) string {
	d := document.Document{Blocks: blocks}
	return d.Text(document.Form{Width: screenWidth})
}

// shortenLabels cuts the first column of a table so that its lines fit the screen.
func shortenLabels(t *document.Table) {
	widest, label := 0, 0
	for line := range strings.Lines(screen(t)) {
		widest = max(widest, utf8.RuneCountInString(line)-1)
	}
	for _, line := range t.Lines {
		label = max(label, utf8.RuneCountInString(line.Cells[0].Text))
	}
	if widest <= screenWidth {
		return
	}
	for _, line := range t.Lines {
		line.Cells[0].Text = cutMiddle(line.Cells[0].Text, max(minLabel, label-(widest-screenWidth)))
	}
}

// cutMiddle shortens a label to at most n characters. Labels differ at their ends.
func cutMiddle(label string, n int) string {
	all := []rune(label)
	if len(all) <= n {
		return label
	}
	return string(all[:n/2]) + "…" + string(all[len(all)-(n-n/2-1):])
}

// isAside reports whether contenders of a kind are no choice for a reader: the twin is the control
// again, and the ceiling is no server.
func isAside(k sample.Kind) bool { return k == sample.Twin || k == sample.Ceiling }
