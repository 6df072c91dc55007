package gobench

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/stat"
	"github.com/tarehq/tare/internal/lab/table"
)

// WriteText writes the whole report for a terminal.
func (a *Analysis) WriteText(w io.Writer) error {
	d := new(table.Document)
	d.Paragraph(a.Verdict())
	for i := range a.Tables {
		a.writeTable(d, &a.Tables[i])
	}
	for _, s := range a.Shape() {
		d.Paragraph(s)
	}
	return a.writeProblems(w, d)
}

// WriteBrief writes what fits the first screen of a terminal.
func (a *Analysis) WriteBrief(w io.Writer) error {
	d := new(table.Document)
	d.Paragraph(a.Verdict())
	return a.writeProblems(w, d)
}

func (a *Analysis) writeProblems(w io.Writer, d *table.Document) error {
	for _, s := range a.Faults() {
		d.Line("%s", s)
	}
	for _, s := range a.Warnings {
		d.Line("WARNING: %s", s)
	}
	_, err := io.WriteString(w, d.String())
	return err
}

func (a *Analysis) writeTable(d *table.Document, t *Table) {
	d.Heading("%s, GOMAXPROCS %d: nanoseconds, bytes and allocations per operation, and time divided by %s's",
		t.Group.Title, t.Procs, a.Control().Title)
	heads := []string{""}
	for _, i := range t.Engines {
		heads = append(heads, a.Entrants[i].Title, "B", "allocs")
		if a.compared(i) {
			heads = append(heads, "times", fmt.Sprintf("%.0f %% interval", 100*stat.Confidence))
		}
		if t.isPublished(i) {
			heads = append(heads, "published")
		}
	}
	var lines [][]string
	for _, row := range t.Rows {
		line := []string{row.Name}
		for _, i := range t.Engines {
			c := &row.Cells[i]
			line = append(line, c.NsText(), count(c.Bytes), count(c.Allocs))
			if a.compared(i) {
				line = append(line, times(c.Ratio.Mid), interval(c.Ratio))
			}
			if t.isPublished(i) {
				line = append(line, times(c.PublishedRatio))
			}
		}
		lines = append(lines, line)
	}
	d.Table(1, heads, lines)
}

// compared reports whether an engine is compared with the control, which it is not itself.
func (a *Analysis) compared(engine int) bool { return a.Entrants[engine].Kind != sample.Control }

// isPublished reports whether an engine has published ratios in a table.
func (t *Table) isPublished(engine int) bool {
	for _, row := range t.Rows {
		if times(row.Cells[engine].PublishedRatio) != "" {
			return true
		}
	}
	return false
}

// NsText returns the time per operation as text, "failed", or a dash.
func (c *Cell) NsText() string {
	switch {
	case c.Trials > 0 && c.Ns.Mid < 100:
		return fmt.Sprintf("%.1f", c.Ns.Mid)
	case c.Trials > 0:
		return fmt.Sprintf("%.0f", c.Ns.Mid)
	case c.Failure != "":
		return "failed"
	}
	return "–"
}

// count returns a number of things as text, or "" for NaN.
func count(v float64) string {
	if table.Number(v) == "" {
		return ""
	}
	return fmt.Sprintf("%.0f", v)
}

func interval(i stat.Interval) string {
	if !i.Known() {
		return ""
	}
	return fmt.Sprintf("%.2f–%.2f", i.Lo, i.Hi)
}

// Faults returns a line for everything that was not measured, with the reason.
func (a *Analysis) Faults() (all []string) {
	for i := range a.Entrants {
		e := &a.Entrants[i]
		if e.Absent != "" {
			all = append(all, fmt.Sprintf("LEFT OUT: %s: %s", e.Title, e.Absent))
		}
		for _, g := range a.Benchmarks.Groups {
			lacking := slices.DeleteFunc(slices.Clone(g.Rows),
				func(row string) bool { return !slices.Contains(e.Lacking, row) })
			switch len(lacking) {
			case 0:
			case len(g.Rows):
				all = append(all, fmt.Sprintf("%s has no benchmarks of %q", e.Title, g.Title))
			default:
				all = append(all, fmt.Sprintf("%s has no benchmark of %s", e.Title, strings.Join(lacking, ", ")))
			}
		}
	}
	for _, t := range a.Tables {
		for _, row := range t.Rows {
			for i := range row.Cells {
				if c := &row.Cells[i]; c.Failure != "" {
					all = append(all,
						fmt.Sprintf("FAILED: %s of %s: %s", label(row.Name, t.Procs), c.Engine.Title, c.Failure))
				}
			}
		}
	}
	return all
}
