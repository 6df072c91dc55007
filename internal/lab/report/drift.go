package report

import (
	"fmt"
	"slices"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

// Drift reports how much the control's cost changed between the first and the last third of its
// trials. It returns "" if there are too few.
func (a *Report) Drift() string {
	control := a.Control()
	var timed []*sample.Record
	costs := make(map[sample.Condition][]float64)
	for i := range a.Records {
		r := &a.Records[i]
		if control != nil && r.Contender == control.Name && r.Timed() && r.Load != nil && len(a.Targets) == 0 {
			timed, costs[r.Condition] = append(timed, r), append(costs[r.Condition], r.WeightUs())
		}
	}
	slices.SortStableFunc(timed, func(x, y *sample.Record) int { return x.Start.Compare(y.Start) })
	// Costs differ between conditions, so each is divided by the median of its own.
	median := func(trials []*sample.Record) float64 {
		var relative []float64
		for _, r := range trials {
			relative = append(relative, r.WeightUs()/stat.Median(costs[r.Condition]).Mid)
		}
		return stat.Median(relative).Mid
	}
	const fewest = 2 // trials of a median
	third := len(timed) / 3
	if third < fewest {
		return ""
	}
	return fmt.Sprintf("Between the first and the last %d trials of %s, its CPU time per request changed by %+.1f %%.",
		third, control.Title, 100*(median(timed[len(timed)-third:])/median(timed[:third])-1))
}
