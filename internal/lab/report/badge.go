package report

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

// WriteBadge writes the result as JSON for an endpoint badge of shields.io.
func (a *Report) WriteBadge(w io.Writer) error {
	message, color := a.badge()
	return json.NewEncoder(w).Encode(struct {
		SchemaVersion int    `json:"schemaVersion"`
		Label         string `json:"label"`
		Message       string `json:"message"`
		Color         string `json:"color"`
	}{1, a.Title, message, color})
}

// badge returns the result in a few words, and a color.
func (a *Report) badge() (message, color string) {
	const good, bad, unclear = "brightgreen", "red", "lightgrey"
	if len(a.Targets) > 0 {
		required, count := a.required()
		color = good
		if count[analyze.Met] < required {
			color = bad
		}
		return fmt.Sprintf("%d of %d targets met", count[analyze.Met], required), color
	}
	if a.Events != nil {
		lost := 0
		for _, l := range a.caseLines() {
			lost += l.sum.Lost()
		}
		return fmt.Sprintf("%d requests lost", lost), "blue"
	}
	if len(a.Tables) == 0 {
		return "not measured", unclear
	}
	t := &a.Tables[0]
	if a.OfKind(sample.Build) != nil {
		changes := a.Changes(t.Table)
		if changes == nil {
			return "not measured", unclear
		}
		cpu := changes[0].Ratio // the first metric is the CPU time
		color := map[stat.Finding]string{stat.Less: good, stat.Same: good, stat.More: bad, stat.Unclear: unclear}
		return percents(cpu) + " of CPU time", color[cpu.Finding()]
	}
	control := t.Row(sample.Control)
	if control == nil || control.Trials == 0 {
		return "not measured", unclear
	}
	return micros(control.WeightUs.Mid) + " of CPU time per request", "blue"
}
