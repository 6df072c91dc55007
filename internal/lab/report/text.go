package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tarehq/tare/internal/lab/stat"
)

// WriteText writes the report for a terminal: the verdict, a table for each condition, warnings,
// and the published shape.
func (a *Analysis) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", wrap(a.Verdict(), textWidth))
	if remarks := a.Remarks(); len(remarks) > 0 {
		fmt.Fprintf(&b, "%s\n\n", wrap(strings.Join(remarks, " "), textWidth))
	}
	for i := range a.Tables {
		a.writeTable(&b, &a.Tables[i])
	}
	a.writeSweepResults(&b)
	notes := a.absent() + a.differences()
	if notes != "" {
		fmt.Fprintf(&b, "%s\n", notes)
	}
	a.writePublished(&b)
	a.writeEntrants(&b)
	a.writeKernel(&b)
	for _, warning := range a.Warnings {
		fmt.Fprintf(&b, "WARNING: %s\n", warning)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// textWidth is the width of a line of prose.
const textWidth = 100

func (a *Analysis) writeTable(b *strings.Builder, t *Table) {
	fmt.Fprintf(b, "With %s: CPU time per request of all server processes, %s of %v\n\n",
		conditionText(t), blocksText(a.Blocks), a.MeasuredTime(t))
	w := tabwriter.NewWriter(b, 0, 8, 2, ' ', tabwriter.AlignRight)
	wide := 0
	for _, row := range t.Rows {
		wide = max(wide, len([]rune(row.Title)))
	}
	title := func(s string) string { return fmt.Sprintf("%-*s", wide, s) }
	fmt.Fprintf(w, "\tµs/request\tuser\tsys\tratio\t%.0f %% interval\tfinding\trequests/s\tp50\tp99\tswitches\tMB\t\n",
		100*stat.Confidence)
	for i := range t.Rows {
		row := &t.Rows[i]
		if row.Trials == 0 {
			fmt.Fprintf(w, "%s\tfailed\t\t\t\t\t\t\t\t\t\t\t\n", title(row.Title))
			continue
		}
		user, sys := t.splitText(row)
		ratio, interval, finding := ratioText(row)
		fmt.Fprintf(w, "%s\t%.2f\t%s\t%s\t%s\t%s\t%s\t%.0f\t%s\t%s\t%.2f\t%.0f\t\n",
			title(row.Title), row.WeightUs.Mid, user, sys, ratio, interval, finding, row.PerSecond.Mid,
			millis(row.Latency.Quantile(0.5)), millis(row.Latency.Quantile(0.99)), row.Voluntary+row.Involuntary,
			row.RSS/1e6)
	}
	_ = w.Flush()
	fmt.Fprintln(b)
	if note := t.ScenarioNote(); note != "" {
		fmt.Fprintf(b, "%s\n\n", wrap(note, textWidth))
	}
	if note := t.VariationNote(); note != "" {
		fmt.Fprintf(b, "%s\n\n", wrap(note, textWidth))
	}
	a.writeBuilds(b, t)
	t.writePairs(b)
	t.writeDecompositions(b)
	a.writeWhy(b, t)
	warnings := t.Warnings()
	for _, w := range warnings {
		text := wrap(w.Contenders()+": "+w.Text, textWidth-4)
		fmt.Fprintf(b, "  %s\n", strings.ReplaceAll(text, "\n", "\n    "))
	}
	if len(warnings) > 0 {
		fmt.Fprintln(b)
	}
}

// splitText returns a row's user and system time, or two empty texts if they are not separated.
func (t *Table) splitText(row *Row) (user, sys string) {
	if !t.Saturated() {
		return "", ""
	}
	var userUs, sysUs float64
	for _, p := range row.Parts {
		userUs += p.UserUs
		sysUs += p.SysUs
	}
	return fmt.Sprintf("%.2f", userUs), fmt.Sprintf("%.2f", sysUs)
}

func blocksText(n int) string {
	if n == 1 {
		return "1 block"
	}
	return fmt.Sprintf("%d blocks", n)
}

func ratioText(row *Row) (ratio, interval, finding string) {
	if row.Kind == Control {
		return "1", "", ""
	}
	ratio = times(row.Ratio.Mid)
	if row.Ratio.Known() {
		interval = intervalText(row.Ratio)
		finding = row.Finding.String()
	}
	return ratio, interval, finding
}

func intervalText(i stat.Interval) string {
	if !i.Known() {
		return ""
	}
	return fmt.Sprintf("%.2f–%.2f", i.Lo, i.Hi)
}

func millis(d time.Duration) string { return fmt.Sprintf("%.2fms", d.Seconds()*1e3) }

func (a *Analysis) absent() string {
	var b strings.Builder
	for _, e := range a.Entrants {
		if e.Absent != "" {
			fmt.Fprintf(&b, "LEFT OUT: %s: %s\n", e.Title, e.Absent)
		}
	}
	return b.String()
}

func (a *Analysis) differences() string {
	var b strings.Builder
	for _, e := range a.Entrants {
		for _, d := range e.Differences {
			fmt.Fprintf(&b, "  %s: %s\n", e.Title, d)
		}
	}
	reasons := a.Reasons()
	for i := range reasons {
		r := &reasons[i]
		differ := "differs"
		if len(r.Of) > 1 {
			differ = "differ"
		}
		fmt.Fprintf(&b, "%s\n", wrap(fmt.Sprintf("%s %s as declared in %s: %s", r.Contenders(), differ,
			list(r.Aspects()), r.Why), textWidth))
	}
	return b.String()
}

// writePublished writes the published rates beside the measured ones, each relative to its control.
func (a *Analysis) writePublished(b *strings.Builder) {
	if len(a.Published) == 0 || len(a.Tables) == 0 {
		return
	}
	fmt.Fprintf(b, "Requests per second relative to the control, published and here:\n\n")
	w := tabwriter.NewWriter(b, 0, 8, 2, ' ', tabwriter.AlignRight)
	shape := a.shape()
	fmt.Fprint(w, "\t")
	for _, column := range shape.columns {
		fmt.Fprintf(w, "%s\t", column)
	}
	fmt.Fprintln(w)
	wide := 0
	for _, row := range shape.rows {
		wide = max(wide, len([]rune(row.title)))
	}
	for _, row := range shape.rows {
		fmt.Fprintf(w, "%-*s\t", wide, row.title)
		for _, v := range row.ratios {
			text := ""
			if v > 0 {
				text = times(v)
			}
			fmt.Fprintf(w, "%s\t", text)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
	fmt.Fprintln(b)
}

// Wrap breaks a text into lines of the width that WriteText uses.
func Wrap(text string) string { return wrap(text, textWidth) }

// wrap breaks a text into lines of at most width characters.
func wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case column == 0:
		case column+1+n > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
