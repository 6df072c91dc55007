package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

// WriteText writes the whole report for a terminal: the verdict, a table for each condition,
// and warnings.
func (a *Report) WriteText(w io.Writer) error { return a.writeDetails(w, new(document.Document)) }

// writeMarkdown writes the whole report as Markdown.
func (a *Report) writeMarkdown(w io.Writer) error {
	d := &document.Document{Markdown: true}
	d.Line("# %s\n\n%s\n", a.Title, a.Question)
	return a.writeDetails(w, d)
}

func (a *Report) writeDetails(w io.Writer, d *document.Document) error {
	d.Paragraph(a.Verdict())
	d.Paragraph(strings.Join(append(a.Remarks(), a.Shares()), " "))
	a.targetTable(d)
	if a.Events != nil {
		a.writeEvents(d, document.Terminal)
		d.Items(a.Problems())
		d.Paragraph("Command: " + a.Command())
		_, err := io.WriteString(w, d.String())
		return err
	}
	for i := range a.Tables {
		a.writeTable(d, &a.Tables[i])
	}
	a.writeSweepResults(d)
	for _, problem := range a.Problems() {
		d.Line("%s", problem)
	}
	d.Items(a.differences())
	a.writeEntrants(d)
	_, err := io.WriteString(w, d.String())
	return err
}

func (a *Report) writeTable(d *document.Document, t *Table) {
	d.Heading("With %s: CPU time per request of all server processes, %s of %v", t.Text(),
		sample.BlocksText(a.Blocks), a.MeasuredTime(t.Table))
	heads, lines := document.Shown(document.Terminal, a.resultColumns(), slices.Values(t.lines()))
	d.Table(1, heads, lines)
	d.Paragraph(t.ScenarioNote())
	if t.Table == a.Tables[0].Table {
		d.Paragraph(t.VariationNote())
	}
	a.writeBuilds(d, t)
	t.writePairs(d)
	t.writeDecompositions(d)
	a.writeWhy(d, t)
	var warnings []string
	for _, w := range t.Warnings() {
		warnings = append(warnings, w.Line())
	}
	d.Items(warnings)
}

func intervalText(i stat.Interval) string {
	if !i.Known() {
		return ""
	}
	return fmt.Sprintf("%.2f–%.2f", i.Lo, i.Hi)
}

func millis(d time.Duration) string { return fmt.Sprintf("%.2fms", d.Seconds()*1e3) }

// Problems returns what makes the run incomplete: contenders that were left out, and warnings about
// the whole run.
func (a *Report) Problems() (all []string) {
	for _, e := range a.Entrants {
		if e.Absent != "" {
			all = append(all, fmt.Sprintf("LEFT OUT: %s: %s", e.Title, e.Absent))
		}
	}
	for _, warning := range a.Run.Warnings {
		all = append(all, "WARNING: "+warning)
	}
	return slices.Concat(all, a.caseProblems(), a.failedRows())
}

func (a *Report) differences() (all []string) {
	for _, e := range a.Entrants {
		for _, d := range e.Differences {
			all = append(all, fmt.Sprintf("%s: %s", e.Title, d))
		}
	}
	reasons := a.Reasons()
	for i := range reasons {
		r := &reasons[i]
		differ := "differs"
		if len(r.Of) > 1 {
			differ = "differ"
		}
		all = append(all, fmt.Sprintf("%s %s as declared in %s: %s", r.Contenders(), differ,
			sample.List(r.Aspects()), r.Why))
	}
	return all
}
