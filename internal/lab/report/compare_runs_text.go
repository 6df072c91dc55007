package report

import (
	"fmt"
	"io"

	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
)

// WriteText writes the comparison for a terminal: what makes the runs incomparable, what changed,
// and the ratios of both.
func (two *RunComparison) WriteText(w io.Writer) error {
	d := new(document.Document)
	var sides document.Lines
	const stamp = "2006-01-02 15:04"
	for _, side := range []struct {
		name string
		of   *Report
	}{{"A", two.A}, {"B", two.B}} {
		sides = append(sides, fmt.Sprintf("%s: %s of %s, %s", side.name, side.of.Experiment, side.of.Started.Format(stamp),
			sample.BlocksText(side.of.Blocks)))
	}
	d.Add(sides)
	if len(two.Mismatches) > 0 {
		d.Add(document.Lines{"WARNING: these runs cannot be compared, because their ratios may differ for these reasons alone:"},
			document.Items{Texts: two.Mismatches})
	}
	if len(two.Changes) > 0 {
		d.Add(document.Lines{"What changed:"}, document.Items{Texts: two.Changes})
	}
	for i := range two.Tables {
		two.Tables[i].write(d)
	}
	if len(two.Tables) == 0 {
		d.Add(document.Lines{"No contender was measured in both under the same condition."})
	}
	return write(w, d.Text(document.Form{Out: document.Terminal}))
}

func (t *RunComparisonTable) write(d *document.Document) {
	d.Add(document.Heading{Level: 2, Text: fmt.Sprintf(
		"With %s: CPU time per request, as a ratio to the control's of the same run (%s interval)", t.Text(), confidence())})
	heads := []string{"", "A", "", "B", "", "result", "A µs", "B µs", "rate A", "rate B"}
	var lines [][]string
	for i := range t.Rows {
		r := &t.Rows[i]
		lines = append(lines, []string{r.Title, times(r.RatioA.Mid), intervalText(r.RatioA), times(r.RatioB.Mid),
			intervalText(r.RatioB), r.Agreement(), fmt.Sprintf("%.2f", r.WeightA.Mid),
			fmt.Sprintf("%.2f", r.WeightB.Mid), times(r.RateA.Mid), times(r.RateB.Mid)})
	}
	d.Add(document.NewTable(1, heads, lines))
}
