package compare

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/tarehq/tare/internal/stat"
	"github.com/tarehq/tare/load/report"
)

// WriteText writes the comparison for a terminal.
func (c *Comparison) WriteText(out io.Writer) error {
	var b strings.Builder
	for i, side := range []Side{c.A, c.B} {
		fmt.Fprintf(&b, "%c  %s\n", "AB"[i], side.Name)
		for _, r := range side.Runs {
			fmt.Fprintf(&b, "   %s  %s  %.1fs\n", r.URL, r.About.Started.Format("2006-01-02 15:04:05"), r.Seconds)
		}
	}
	fmt.Fprintln(&b)
	for _, d := range c.Differences {
		fmt.Fprintf(&b, "different %s\n", d)
	}
	if len(c.Differences) > 0 {
		fmt.Fprintln(&b)
	}
	c.writeRows(&b)
	note := func(text string) { fmt.Fprintln(&b, report.Note(text)) }
	fmt.Fprintln(&b)
	note(c.Verdict())
	for _, remark := range c.Remarks {
		note(remark)
	}
	if known := func(r Row) bool { return r.Ratio.Known() }; slices.ContainsFunc(c.Rows, known) &&
		min(len(c.A.Runs), len(c.B.Runs)) == 1 {
		note("Intervals cover the variation within these runs. Compare several runs of each side to include the variation between runs.")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (c *Comparison) writeRows(b *strings.Builder) {
	w := tabwriter.NewWriter(b, 0, 8, 2, ' ', tabwriter.AlignRight)
	wide := 0
	for i := range c.Rows {
		wide = max(wide, len(c.Rows[i].Name))
	}
	fmt.Fprintf(w, "%-*s\tA\tB\tB/A\t%.0f%% interval\t\n", wide, "", 100*stat.Confidence)
	for i := range c.Rows {
		r := &c.Rows[i]
		ratio, interval := "", ""
		if !math.IsNaN(r.Ratio.Mid) {
			ratio = fmt.Sprintf("%.3f", r.Ratio.Mid)
		}
		if r.Ratio.Known() {
			interval = fmt.Sprintf("%.3f–%.3f", r.Ratio.Lo, r.Ratio.Hi)
		}
		fmt.Fprintf(w, "%-*s\t%s\t%s\t%s\t%s\t  %s\n", wide, r.Name, r.A, r.B, ratio, interval, r.word())
	}
	_ = w.Flush()
}

func (r *Row) word() string {
	faster, slower := r.IsFaster()
	switch {
	case r.Name == errorsName && faster:
		return "fewer"
	case r.Name == errorsName && slower:
		return "more"
	}
	return r.result()
}
