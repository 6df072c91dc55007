package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/table"
)

// Limits of the first screen.
const (
	screenLines  = 24 // of a terminal
	callerLines  = 1  // that the caller prints below: where the report is
	verdictLines = 8
	problemLines = 6  // if not all problems fit
	shortLine    = 96 // characters of a problem then
)

// WriteBrief writes what fits the first screen of a terminal: the verdict, the most important
// columns of the first condition, and problems.
func (a *Report) WriteBrief(w io.Writer) error {
	d := new(table.Document)
	d.Paragraph(a.Verdict())
	if len(a.Targets) > 0 { // each is a line, however many these are
		a.targetTable(d)
		_, err := io.WriteString(w, d.String()+briefProblems(a.Problems(), problemLines))
		return err
	}
	verdict := d.String()
	if d.Lines() > verdictLines {
		verdict = strings.Join(strings.SplitAfter(verdict, "\n")[:verdictLines-2], "") + "…\n\n"
	}
	room := screenLines - callerLines - strings.Count(verdict, "\n")
	var tables string
	if len(a.Tables) > 0 {
		tables = a.briefTables(&a.Tables[0], room-min(problemLines, problemsHeight(a.Problems())))
	}
	problems := briefProblems(a.Problems(), room-strings.Count(tables, "\n"))
	_, err := io.WriteString(w, verdict+tables+problems)
	return err
}

// briefTables returns the first table in as many lines, and what the costs mean.
func (a *Report) briefTables(t *Table, room int) string {
	d, foot := new(table.Document), new(table.Document)
	foot.Paragraph(a.Shares())
	if a.Changes(t.Table) != nil {
		a.writeBuilds(d, t)
		return d.String()
	}
	d.Heading("With %s:", t.Text())
	var lines []rowLine
	for _, line := range t.lines() {
		if !isAside(line.Kind) {
			lines = append(lines, line)
		}
	}
	const around = 2 // the table's head and the empty line below
	left := 0
	if room -= d.Lines() + around + foot.Lines(); len(lines) > room {
		shown := max(1, room-around)
		left = len(lines) - shown
		lines = lines[:shown]
	}
	t.writeResults(d, table.In(table.Brief, a.resultColumns()), lines)
	if left > 0 {
		d.Paragraph(fmt.Sprintf("%d more contenders are in the report.", left))
	}
	return d.String() + foot.String()
}

func problemsHeight(problems []string) int {
	if len(problems) == 0 {
		return 0
	}
	return strings.Count(strings.Join(problems, "\n")+"\n", "\n")
}

// briefProblems returns the problems in as many lines: in full, or the first line of each.
func briefProblems(problems []string, room int) string {
	if len(problems) == 0 {
		return ""
	}
	if problemsHeight(problems) <= room {
		return strings.Join(problems, "\n") + "\n"
	}
	var b strings.Builder
	for i, text := range problems {
		if i == room-1 && len(problems) > room {
			fmt.Fprintf(&b, "%d more problems are in the report.\n", len(problems)-i)
			break
		}
		b.WriteString(shortened(text) + "\n")
	}
	return b.String()
}

// shortened returns the first line of a text, cut to the screen.
func shortened(text string) string {
	first := []rune(firstLine(text))
	if len(first) > shortLine {
		first = append(first[:shortLine-2], ' ', '…')
	}
	return string(first)
}

// isAside reports whether contenders of a kind are no choice for a reader: the twin is the control
// again, and the ceiling is no server.
func isAside(k sample.Kind) bool { return k.IsCopy() || k == sample.Ceiling }
