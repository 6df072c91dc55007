package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/tarehq/tare/internal/lab/stat"
)

// WriteText writes the comparison for a terminal: what makes the runs incomparable, what changed,
// and the ratios of both.
func (two *RunComparison) WriteText(w io.Writer) error {
	var b strings.Builder
	const stamp = "2006-01-02 15:04"
	fmt.Fprintf(&b, "A: %s of %s, %s\nB: %s of %s, %s\n\n", two.A.Experiment, two.A.Started.Format(stamp),
		blocksText(two.A.Blocks),
		two.B.Experiment, two.B.Started.Format(stamp), blocksText(two.B.Blocks))
	if len(two.Mismatches) > 0 {
		fmt.Fprintf(&b, "WARNING: these runs cannot be compared, because their ratios may differ for these reasons alone:\n")
		writeLines(&b, two.Mismatches)
	}
	if len(two.Changes) > 0 {
		fmt.Fprintf(&b, "What changed:\n")
		writeLines(&b, two.Changes)
	}
	for i := range two.Tables {
		two.Tables[i].write(&b)
	}
	if len(two.Tables) == 0 {
		fmt.Fprintf(&b, "No contender was measured in both under the same condition.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeLines(b *strings.Builder, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(b, "  %s\n", line)
	}
	b.WriteByte('\n')
}

func (t *RunComparisonTable) write(b *strings.Builder) {
	fmt.Fprintf(b, "With %s: CPU time per request, as a ratio to the control's of the same run (%.0f %% interval)\n\n",
		conditionText(&Table{Condition: t.Condition}), 100*stat.Confidence)
	w := tabwriter.NewWriter(b, 0, 8, 2, ' ', tabwriter.AlignRight)
	wide := 0
	for i := range t.Rows {
		wide = max(wide, len([]rune(t.Rows[i].Title)))
	}
	fmt.Fprintf(w, "%*s\tA\t\tB\t\tresult\tA µs\tB µs\trate A\trate B\t\n", wide, "")
	for i := range t.Rows {
		r := &t.Rows[i]
		fmt.Fprintf(w, "%-*s\t%s\t%s\t%s\t%s\t%s\t%.2f\t%.2f\t%s\t%s\t\n", wide, r.Title, times(r.RatioA.Mid),
			intervalText(r.RatioA),
			times(r.RatioB.Mid), intervalText(r.RatioB), r.Agreement(), r.WeightA.Mid, r.WeightB.Mid,
			times(r.RateA.Mid), times(r.RateB.Mid))
	}
	_ = w.Flush()
	b.WriteByte('\n')
}
