package report

import (
	"encoding/csv"
	"io"
	"slices"

	"github.com/tarehq/tare/internal/lab/stat"
)

const (
	pairsFile = "pairs.csv"
	shapeFile = "shape.csv"
)

// csvInterval returns the cells of a value with its bounds.
func csvInterval(i stat.Interval) []string {
	return []string{csvNumber(i.Mid), csvNumber(i.Lo), csvNumber(i.Hi)}
}

// writePairs writes the costs of parts, one per line.
func (a *Analysis) writePairs(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write(slices.Concat([]string{"experiment"}, conditionColumns(),
		[]string{"what", "of", "than", "extra_us", "extra_us_lo", "extra_us_hi",
			"ratio", "ratio_lo", "ratio_hi", "finding", "application_ratio", "application_ratio_lo",
			"application_ratio_hi"})) // the writer keeps its first error
	for i := range a.Tables {
		t := &a.Tables[i]
		for j := range t.Pairs {
			p := &t.Pairs[j]
			_ = out.Write(slices.Concat([]string{a.Experiment}, conditionCells(t.Condition),
				[]string{p.What, p.Of.Name, p.Than.Name},
				csvInterval(p.ExtraUs), csvInterval(p.Ratio), []string{p.Finding.String()}, csvInterval(p.AppRatio)))
		}
	}
	out.Flush()
	return out.Error()
}

// writeShape writes the published and the measured rates, each with its ratio to its control's.
func (a *Analysis) writeShape(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write(slices.Concat([]string{"experiment", "published"}, conditionColumns(),
		[]string{"contender", "requests_per_sec", "ratio", "ratio_lo", "ratio_hi"}))
	for _, p := range a.Published {
		_ = out.Write([]string{a.Experiment, p.Group, "", "", "", p.Contender, csvNumber(p.PerSecond),
			csvNumber(p.Ratio), "", ""})
	}
	for i := range a.Tables {
		t := &a.Tables[i]
		for _, row := range t.measured() {
			_ = out.Write(slices.Concat([]string{a.Experiment, ""}, conditionCells(t.Condition),
				[]string{row.Name, csvNumber(row.PerSecond.Mid)}, csvInterval(row.RateRatio)))
		}
	}
	out.Flush()
	return out.Error()
}
