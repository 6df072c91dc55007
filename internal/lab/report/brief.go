package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
)

// Limits of the first screen.
const (
	screenLines  = 24 // of a terminal
	screenWidth  = 80
	callerLines  = 1 // that the caller prints below: where the report is
	verdictLines = 8
	minLabel     = 12
	problemLines = 6  // if not all problems fit
	shortLine    = 78 // characters of a problem then
)

// WriteBrief writes what fits the first screen of a terminal: the verdict, the most important
// columns of the first condition, and problems.
func (a *Report) WriteBrief(w io.Writer) error {
	d := newScreen()
	d.Paragraph(a.finding())
	if len(a.Targets) > 0 { // each is a line, however many these are
		a.targetTable(d)
		_, err := io.WriteString(w, d.String()+briefProblems(a.Problems(), problemLines))
		return err
	}
	if a.Events != nil {
		a.writeEvents(d, document.Brief)
		d.Items(a.Problems())
		_, err := io.WriteString(w, d.String())
		return err
	}
	verdict := d.String()
	if d.Lines() > verdictLines {
		verdict = strings.Join(strings.SplitAfter(verdict, "\n")[:verdictLines-2], "") + "…\n\n"
	}
	if others := a.Others(); others != "" {
		verdict += others + "\n\n"
	}
	all := a.Problems()
	if len(a.Tables) > 0 {
		for _, w := range a.Tables[0].limits() {
			all = append(all, w.Line())
		}
	}
	room := screenLines - callerLines - strings.Count(verdict, "\n")
	tables := a.briefTables(room - min(problemLines, problemsHeight(all)))
	problems := briefProblems(all, room-strings.Count(tables, "\n"))
	_, err := io.WriteString(w, verdict+tables+problems)
	return err
}

// WriteEarly writes the first table of a run that has not ended, after some blocks. Its intervals
// are early ones until there are enough blocks for others.
func (a *Report) WriteEarly(w io.Writer) error {
	if len(a.Tables) == 0 {
		return nil
	}
	t := &a.Tables[0]
	for i := range t.Rows {
		if r := &t.Rows[i]; !r.Ratio.Known() {
			r.Ratio = r.Early
		}
	}
	d := newScreen()
	d.Heading("After %s, with %s:", sample.BlocksText(a.Blocks), t.Text())
	a.writeResults(d, t, screenLines-d.Lines())
	_, err := io.WriteString(w, d.String())
	return err
}

// writeResults writes the most important columns of a table, in as many lines.
func (a *Report) writeResults(d *document.Document, t *Table, room int) {
	rows := slices.DeleteFunc(t.lines(), func(l rowLine) bool { return isAside(l.Kind) })
	heads, lines := document.Shown(document.Brief, a.resultColumns(), slices.Values(rows))
	writeFirst(d, 1, heads, lines, room, "contenders")
}

// briefTables returns the first table in as many lines, and what the costs mean.
func (a *Report) briefTables(room int) string {
	d := newScreen()
	switch {
	case len(a.Tables) == 0:
	case a.Changes(a.Tables[0].Table) != nil:
		a.writeBuilds(d, &a.Tables[0])
	default:
		foot := newScreen()
		foot.Paragraph(a.Shares())
		d.Heading("With %s:", a.Tables[0].Text())
		a.writeResults(d, &a.Tables[0], room-d.Lines()-foot.Lines())
		return d.String() + foot.String()
	}
	return d.String()
}

// writeFirst writes the lines of a table that fit, and how many more there are.
func writeFirst(d *document.Document, left int, heads []string, lines [][]string, room int, what string) {
	const around = 2 // the table's head and the empty line below
	more := 0
	if room -= around; len(lines) > room {
		shown := max(1, room-around)
		more = len(lines) - shown
		lines = lines[:shown]
	}
	for i, head := range heads { // the screen has room for one line of a head
		heads[i] = head[strings.LastIndexByte(head, '\n')+1:]
	}
	shortenLabels(left, heads, lines)
	d.Table(left, heads, lines)
	if more > 0 {
		d.Paragraph(fmt.Sprintf("%d more %s are in the report.", more, what))
	}
}

func newScreen() *document.Document { return &document.Document{Width: screenWidth} }

// shortenLabels cuts the first column of a table so that its lines fit the screen.
func shortenLabels(left int, heads []string, lines [][]string) {
	all := new(document.Document)
	all.Table(left, heads, lines)
	widest, label := 0, 0
	for line := range strings.Lines(all.String()) {
		widest = max(widest, utf8.RuneCountInString(line)-1)
	}
	for _, line := range lines {
		label = max(label, utf8.RuneCountInString(line[0]))
	}
	if widest <= screenWidth {
		return
	}
	for _, line := range lines {
		line[0] = cutMiddle(line[0], max(minLabel, label-(widest-screenWidth)))
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

// cut shortens a text to at most n characters.
func cut(text string, n int) string {
	all := []rune(text)
	if len(all) <= n {
		return text
	}
	return string(all[:n-1]) + "…"
}

// problemsHeight returns the number of lines that problems take on the screen, in full.
func problemsHeight(problems []string) (n int) {
	for _, text := range problems {
		for line := range strings.Lines(text) {
			n += 1 + (utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))-1)/screenWidth
		}
	}
	return n
}

// briefProblems returns the problems in as many lines: in full, the first line of each, or its
// beginning.
func briefProblems(problems []string, room int) string {
	if problemsHeight(problems) <= room {
		return strings.Join(append(problems, ""), "\n")
	}
	first, inFull := make([]string, len(problems)), ""
	for i, text := range problems {
		first[i] = firstLine(text)
		d := newScreen()
		d.Paragraph(first[i])
		inFull += strings.TrimSuffix(d.String(), "\n")
	}
	if strings.Count(inFull, "\n") <= room {
		return inFull
	}
	var b strings.Builder
	for i, text := range first {
		if i == room-1 && len(first) > room {
			fmt.Fprintf(&b, "%d more problems are in the report.\n", len(first)-i)
			break
		}
		b.WriteString(cut(text, shortLine) + "\n")
	}
	return b.String()
}

// isAside reports whether contenders of a kind are no choice for a reader: the twin is the control
// again, and the ceiling is no server.
func isAside(k sample.Kind) bool { return k.IsCopy() || k == sample.Ceiling }
