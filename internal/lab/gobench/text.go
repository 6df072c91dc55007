package gobench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/lab/stat"
)

// WriteText writes the report for a terminal.
func (a *Analysis) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", report.Wrap(a.Verdict()))
	for i := range a.Tables {
		a.writeTable(&b, &a.Tables[i])
	}
	for _, s := range a.Shape() {
		fmt.Fprintf(&b, "%s\n\n", report.Wrap(s))
	}
	for _, s := range a.Faults() {
		fmt.Fprintln(&b, s)
	}
	for _, s := range a.Warnings {
		fmt.Fprintf(&b, "WARNING: %s\n", s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (a *Analysis) writeTable(b *strings.Builder, t *Table) {
	fmt.Fprintf(b, "%s, GOMAXPROCS %d: nanoseconds, bytes and allocations per operation, and time divided by %s's\n\n", t.Group.Title, t.Procs, a.control().Title)
	w := tabwriter.NewWriter(b, 0, 8, 2, ' ', tabwriter.AlignRight)
	wide := 0
	for _, row := range t.Rows {
		wide = max(wide, len(row.Name))
	}
	fmt.Fprint(w, "\t")
	for _, i := range t.Engines {
		fmt.Fprintf(w, "%s\tB\tallocs\t", a.Entrants[i].Title)
		if a.compared(i) {
			fmt.Fprintf(w, "times\t%.0f %% interval\t", 100*stat.Confidence)
		}
		if t.isPublished(i) {
			fmt.Fprint(w, "published\t")
		}
	}
	fmt.Fprintln(w)
	for _, row := range t.Rows {
		fmt.Fprintf(w, "%-*s\t", wide, row.Name)
		for _, i := range t.Engines {
			c := &row.Cells[i]
			fmt.Fprintf(w, "%s\t%s\t%s\t", c.NsText(), count(c.Bytes), count(c.Allocs))
			if a.compared(i) {
				fmt.Fprintf(w, "%s\t%s\t", times(c.Ratio.Mid), interval(c.Ratio))
			}
			if t.isPublished(i) {
				fmt.Fprintf(w, "%s\t", times(c.PublishedRatio))
			}
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
	fmt.Fprintln(b)
}

// compared reports whether an engine is compared with the control, which it is not itself.
func (a *Analysis) compared(engine int) bool { return a.Entrants[engine].Name != a.Control }

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
	if number(v) == "" {
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
		for _, g := range a.Groups {
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
