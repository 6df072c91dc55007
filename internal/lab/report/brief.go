package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
	loadreport "github.com/tarehq/tare/load/report"
)

// Limits of the first screen.
const (
	screenLines  = 24 // of a terminal
	screenWidth  = 80
	callerLines  = 1 // printed below by the caller: where the report is
	verdictLines = 8
	minLabel     = 12
	problemLines = 6 // of problems beside a table
)

// WriteBrief writes what fits the first screen of a terminal: the verdict, the most important
// columns of the first condition, and problems.
func (a *Report) WriteBrief(w io.Writer) error {
	verdict := screen(document.Paragraph{Text: a.comparison()})
	if len(a.Targets) > 0 { // each target has a line, however many there are
		return write(w, verdict+screen(a.targetTable())+briefProblems(a.Problems(), problemLines))
	}
	if a.Events != nil {
		return write(w, verdict+screen(a.briefCases()...)+screen(document.Items{Texts: a.Problems()}))
	}
	if lineCount(verdict) > verdictLines {
		verdict = strings.Join(strings.SplitAfter(verdict, "\n")[:verdictLines-2], "") + "…\n\n"
	}
	if others := a.Others(); others != "" {
		verdict += others + "\n\n"
	}
	all := a.Problems()
	if len(a.Tables) > 0 {
		all = append(all, a.Tables[0].limits()...)
	}
	room := screenLines - callerLines - lineCount(verdict)
	tables := a.briefTables(room - min(problemLines, problemsHeight(all)))
	return write(w, verdict+tables+briefProblems(all, room-lineCount(tables)))
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
			r.Ratio.Interval = r.Ratio.Early
		}
	}
	head := screen(document.Heading{Text: fmt.Sprintf("After %s, with %s:", loadreport.Plural(a.Blocks, "block"), t.Text())})
	return write(w, head+a.results(t, screenLines-lineCount(head)))
}

// results returns the most important columns of a table, in as many lines.
func (a *Report) results(t *Table, room int) string {
	rows := slices.DeleteFunc(t.lines(), func(l rowLine) bool { return isAside(l.Kind) })
	return firstLines(document.Rows(1, a.resultColumns(), rows, nil), room)
}

func (a *Report) briefCases() (blocks []document.Block) {
	streams := a.streamTables()
	if len(streams) == 0 {
		return []document.Block{a.caseTable()}
	}
	for _, t := range streams {
		blocks = append(blocks, document.Heading{Text: t.Title}, t.Table())
	}
	return append(blocks, document.Paragraph{Text: streamsNote})
}

// briefTables returns the first table in as many lines, and what the costs mean.
func (a *Report) briefTables(room int) string {
	if len(a.Tables) == 0 {
		return ""
	}
	t := &a.Tables[0]
	if a.Changes(t.Table) != nil {
		d := new(document.Document)
		a.addBuilds(d, t)
		return screen(d.Blocks...)
	}
	head, foot := screen(document.Heading{Text: "With " + t.Text() + ":"}), screen(document.Paragraph{Text: a.Shares()})
	return head + a.results(t, room-lineCount(head)-lineCount(foot)) + foot
}

// firstLines returns the lines of a table that fit, and how many more there are.
func firstLines(t *document.Table, room int) string {
	const around = 2 // the table's head and the empty line below
	more := ""
	if room -= around; len(t.Lines) > room {
		shown := max(1, room-around)
		more = screen(document.Paragraph{Text: fmt.Sprintf("%d more contenders are in the report.", len(t.Lines)-shown)})
		t.Lines = t.Lines[:shown]
	}
	for i := range t.Heads { // the screen has room for one line of a head
		t.Heads[i].Text = t.Heads[i].Text[strings.LastIndexByte(t.Heads[i].Text, '\n')+1:]
	}
	shortenLabels(t)
	return screen(t) + more
}

// screen returns blocks as the first screen shows them.
func screen(blocks ...document.Block) string {
	d := document.Document{Blocks: blocks}
	return d.Text(document.Form{Out: document.Brief, Width: screenWidth})
}

func lineCount(text string) int { return strings.Count(text, "\n") }

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

// problemsHeight returns the number of lines that problems take on the screen, in full.
func problemsHeight(problems []string) (n int) {
	for line := range strings.Lines(strings.Join(problems, "\n")) {
		n += 1 + (utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))-1)/screenWidth
	}
	return n
}

// briefProblems returns problems in as many lines: in full, or the first lines of as many as fit.
func briefProblems(problems []string, room int) string {
	if problemsHeight(problems) <= room {
		return strings.Join(append(problems, ""), "\n")
	}
	shown := ""
	for i, text := range problems {
		next := strings.TrimSuffix(screen(document.Paragraph{Text: firstLine(text)}), "\n")
		if rest := len(problems) - i; lineCount(shown+next) > room-min(1, rest-1) {
			return shown + fmt.Sprintf("%d more problems are in the report.\n", rest)
		}
		shown += next
	}
	return shown
}

// isAside reports whether contenders of a kind are no choice for a reader: the twin is the control
// again, and the ceiling is no server.
func isAside(k sample.Kind) bool { return k == sample.Twin || k == sample.Ceiling }
