package analyze

import (
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

// Pair is the result of a comparison under one condition.
type Pair struct {
	sample.Comparison
	Of, Than *Row
	ExtraUs  stat.Interval // extra CPU time of a request, by slices
	Ratio    stat.Interval
	AppRatio stat.Interval // of the applications alone, without fronts
	Finding  stat.Finding
}

// pairs returns the comparisons of which both sides were measured.
func pairs(run *sample.Run, t *Table) (all []Pair) {
	for _, c := range run.Compare {
		p := Pair{Comparison: c, Of: t.Named(c.Of), Than: t.Named(c.Than)}
		if p.Of == nil || p.Than == nil || p.Of.Trials == 0 || p.Than.Trials == 0 {
			continue
		}
		p.ExtraUs = Excess(p.Of.blocks, p.Than.blocks, Weight)
		p.Ratio = Weights(p.Of.blocks, p.Than.blocks, Weight).Interval
		p.AppRatio = Weights(p.Of.blocks, p.Than.blocks,
			func(s *sample.Slice) float64 { return s.WeightUs(contender.RoleApplication) }).Interval
		p.Finding = p.Ratio.Finding()
		all = append(all, p)
	}
	return all
}
