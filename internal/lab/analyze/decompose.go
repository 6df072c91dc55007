package analyze

import (
	"math"
	"slices"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

// Decomposition divides the extra cost of a request with one contender, compared with another, into
// parts by role and kind of CPU time.
//
// Each figure is the median of the blocks' differences. Within a block the parts add up to the
// total, but medians need not; the rest is the residual. It includes processes of unknown roles.
type Decomposition struct {
	What       string // the part of the comparison in which they differ; "" if Than is the control
	Of, Than   *Row
	TotalUs    stat.Interval
	Parts      []PartDifference // in the order in which a request passes them
	ResidualUs float64
}

// PartDifference is one part of a decomposition.
type PartDifference struct {
	Name string // the role, and user or sys, the kind of CPU time
	Us   stat.Interval
}

// Part returns the part with a name, or nil if neither of the two has the role.
func (d *Decomposition) Part(name string) *PartDifference {
	return sample.First(d.Parts, func(p *PartDifference) bool { return p.Name == name })
}

// PartNames returns the names of all parts in a table's decompositions.
func (t *Table) PartNames() (names []string) {
	for _, role := range sample.Roles() {
		for _, name := range []string{role + " user", role + " sys"} {
			if slices.ContainsFunc(t.Decompositions, func(d Decomposition) bool { return d.Part(name) != nil }) {
				names = append(names, name)
			}
		}
	}
	return names
}

// decompose divides the differences of the contenders from the control, and those of the run's
// comparisons.
func decompose(run *sample.Run, t *Table) (all []Decomposition) {
	control := t.Row(sample.Control)
	for i := range t.Rows {
		if row := &t.Rows[i]; row.Kind != sample.Control && row.Kind != sample.Twin {
			all = append(all, Decomposition{Of: row, Than: control})
		}
	}
	for i := range t.Pairs {
		p := &t.Pairs[i]
		if !slices.ContainsFunc(all, func(d Decomposition) bool { return d.Of == p.Of && d.Than == p.Than }) {
			all = append(all, Decomposition{What: p.What, Of: p.Of, Than: p.Than})
		}
	}
	all = slices.DeleteFunc(all, func(d Decomposition) bool {
		return d.Than == nil || d.Of.Trials == 0 || d.Than.Trials == 0
	})
	for i := range all {
		d := &all[i]
		d.divide(d.Of.blocks, recordsLike(run, d.Than.Entrant, t.Condition, d.Of.blocks))
	}
	return slices.DeleteFunc(all, func(d Decomposition) bool { return math.IsNaN(d.TotalUs.Mid) }) // no block has both
}

// divide computes the total, the parts and the residual from the records of both, by block.
func (d *Decomposition) divide(of, than []*sample.Record) {
	d.TotalUs = stat.Difference(values(of, (*sample.Record).WeightUs), values(than, (*sample.Record).WeightUs))
	d.ResidualUs = d.TotalUs.Mid
	for _, role := range sample.Roles() {
		if !hasRole(of, role) && !hasRole(than, role) {
			continue
		}
		for _, kind := range []struct {
			name string
			us   func(*sample.Record, string) float64
		}{{" user", (*sample.Record).UserUs}, {" sys", (*sample.Record).SysUs}} {
			us := func(r *sample.Record) float64 { return kind.us(r, role) }
			more := stat.Difference(values(of, us), values(than, us))
			d.Parts = append(d.Parts, PartDifference{role + kind.name, more})
			d.ResidualUs -= more.Mid
		}
	}
	if math.Abs(d.ResidualUs) < rounding {
		d.ResidualUs = 0
	}
}

const rounding = 1e-9 // error of floating point in sums of microseconds

func hasRole(blocks []*sample.Record, role string) bool {
	return slices.ContainsFunc(blocks, func(r *sample.Record) bool { return r != nil && len(r.Costs[role]) > 0 })
}

// Pair is the result of a comparison under one condition.
type Pair struct {
	sample.Comparison
	Of, Than *Row
	Ratio    stat.Interval
	AppRatio stat.Interval // of the applications alone, without fronts
}

// ExtraUs returns the extra CPU time of a request, in microseconds.
func (p *Pair) ExtraUs() float64 { return p.Than.WeightUs.Mid * (p.Ratio.Mid - 1) }

// pairs returns the comparisons of which both sides were measured.
func pairs(run *sample.Run, t *Table) (all []Pair) {
	for _, c := range run.Compare {
		p := Pair{Comparison: c, Of: t.Named(c.Of), Than: t.Named(c.Than)}
		if p.Of == nil || p.Than == nil || p.Of.Trials == 0 || p.Than.Trials == 0 {
			continue
		}
		p.Ratio = Weights(p.Of.blocks, p.Than.blocks, Weight).Interval
		p.AppRatio = Weights(p.Of.blocks, p.Than.blocks,
			func(s *sample.Slice) float64 { return s.WeightUs(contender.RoleApplication) }).Interval
		all = append(all, p)
	}
	return all
}
