package report

import (
	"fmt"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

// VariationNote returns a sentence on how much ratios vary between slices and between starts. The
// figures are the medians of the rows.
func (t *Table) VariationNote() string {
	var ofSlices, ofStarts []float64
	n := 0
	for i := range t.Rows {
		if r := &t.Rows[i]; r.Kind != sample.Control && r.SliceSpread > 0 {
			ofSlices, ofStarts = append(ofSlices, r.SliceSpread), append(ofStarts, r.StartSpread)
			n = max(n, r.Slices)
		}
	}
	if len(ofSlices) == 0 {
		return ""
	}
	return fmt.Sprintf("Each ratio comes from up to %d slices of load, each divided by the control's slice of the same round and corrected for the speed of the CPU. Ratios vary by %.1f %% between slices and by %.1f %% between starts (standard deviations, medians of the rows).",
		n, 100*stat.Median(ofSlices).Mid, 100*stat.Median(ofStarts).Mid)
}
