package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/stat"
	"github.com/tarehq/tare/internal/lab/trial"
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
	Calls      []CallDifference // largest first; none if not counted
}

// PartDifference is one part of a decomposition.
type PartDifference struct {
	Role string
	Sys  bool // system time, not user time
	Us   stat.Interval

	oneSided bool // only one of the two has processes of the role
}

// Name returns the role and the kind of CPU time.
func (p *PartDifference) Name() string { return p.Role + " " + p.kind() }

func (p *PartDifference) kind() string {
	if p.Sys {
		return "sys"
	}
	return "user"
}

// Part returns the part with a name, or nil if neither of the two has the role.
func (d *Decomposition) Part(name string) *PartDifference {
	i := slices.IndexFunc(d.Parts, func(p PartDifference) bool { return p.Name() == name })
	if i < 0 {
		return nil
	}
	return &d.Parts[i]
}

// PartNames returns the names of all parts in a table's decompositions.
func (t *Table) PartNames() (names []string) {
	for _, role := range trial.Roles() {
		for _, sys := range []bool{false, true} {
			name := (&PartDifference{Role: role, Sys: sys}).Name()
			if slices.ContainsFunc(t.Decompositions, func(d Decomposition) bool { return d.Part(name) != nil }) {
				names = append(names, name)
			}
		}
	}
	return names
}

// CallDifference is how many more system calls of a name a role makes per request.
type CallDifference struct {
	Role, Name string
	PerRequest float64
}

// decompose divides the differences of the contenders from the control, and those of the run's
// comparisons.
func decompose(run *Run, t *Table) (all []Decomposition) {
	control := t.Row(Control)
	for i := range t.Rows {
		if row := &t.Rows[i]; row.Kind != Control && row.Kind != Twin {
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
		d.Calls = callDifferences(counted(run, d.Of.Name, t.Condition), counted(run, d.Than.Name, t.Condition))
	}
	return slices.DeleteFunc(all, func(d Decomposition) bool { return math.IsNaN(d.TotalUs.Mid) }) // no block has both
}

// divide computes the total, the parts and the residual from the records of both, by block.
func (d *Decomposition) divide(of, than []*trial.Record) {
	d.TotalUs, _ = stat.Difference(values(of, (*trial.Record).WeightUs), values(than, (*trial.Record).WeightUs))
	d.ResidualUs = d.TotalUs.Mid
	for _, role := range trial.Roles() {
		with, without := hasRole(of, role), hasRole(than, role)
		if !with && !without {
			continue
		}
		for _, sys := range []bool{false, true} {
			us := func(r *trial.Record) float64 {
				user, inKernel := r.CPUUsPerRequest(role)
				if sys {
					return inKernel
				}
				return user
			}
			p := PartDifference{Role: role, Sys: sys, oneSided: with != without}
			p.Us, _ = stat.Difference(values(of, us), values(than, us))
			d.Parts = append(d.Parts, p)
			d.ResidualUs -= p.Us.Mid
		}
	}
	if math.Abs(d.ResidualUs) < rounding {
		d.ResidualUs = 0
	}
}

// rounding is the error of floating point in sums of microseconds.
const rounding = 1e-9

func hasRole(blocks []*trial.Record, role string) bool {
	return slices.ContainsFunc(blocks, func(r *trial.Record) bool { return r != nil && len(r.Costs[role]) > 0 })
}

const (
	// leastCalls is the smallest difference in calls per request that is reported.
	leastCalls = 0.05
	// listedCalls is the number of system calls that are listed for a contender.
	listedCalls = 6
)

// callDifferences compares the system calls of two contenders, without the generator's.
func callDifferences(of, than *trial.Record) (all []CallDifference) {
	if of == nil || than == nil || of.Attribution.Calls == nil || than.Attribution.Calls == nil {
		return nil
	}
	for _, role := range trial.Roles() {
		more := make(map[string]float64)
		for name, n := range of.Attribution.Calls[role] {
			more[name] += perRequest(of, n)
		}
		for name, n := range than.Attribution.Calls[role] {
			more[name] -= perRequest(than, n)
		}
		for name, n := range more {
			if math.Abs(n) >= leastCalls {
				all = append(all, CallDifference{role, name, n})
			}
		}
	}
	slices.SortFunc(all, func(a, b CallDifference) int {
		return cmp.Or(cmp.Compare(math.Abs(b.PerRequest), math.Abs(a.PerRequest)),
			cmp.Compare(a.Role+a.Name, b.Role+b.Name))
	})
	return all
}

// Sentence describes the decomposition.
func (d *Decomposition) Sentence() string {
	more, by := "more", d.TotalUs.Mid
	if by < 0 {
		more, by = "less", -by
	}
	chance := ""
	if d.TotalUs.Known() && d.TotalUs.Contains(0) {
		chance = ", which may be chance"
	}
	return fmt.Sprintf("%s costs %s %s than %s%s: %s", d.Of.Title, micros(by), more, d.Than.Title, chance,
		strings.Join(d.partTexts(), ", "))
}

// partTexts returns the parts with their signs. User and system time of a role that only one of the
// two has are added up. A negligible residual is left out.
func (d *Decomposition) partTexts() (words []string) {
	for i := 0; i < len(d.Parts); i++ {
		p := &d.Parts[i]
		if p.oneSided {
			words = append(words, p.Role+" "+signed(p.Us.Mid+d.Parts[i+1].Us.Mid)) // sys follows user
			i++
			continue
		}
		words = append(words, p.Name()+" "+signed(p.Us.Mid))
	}
	if math.Abs(d.ResidualUs) >= 0.05 {
		words = append(words, "residual "+signed(d.ResidualUs))
	}
	return words
}

// CallList returns the system calls that differ most.
func (d *Decomposition) CallList() string {
	var words []string
	for _, c := range d.Calls[:min(listedCalls, len(d.Calls))] {
		words = append(words, fmt.Sprintf("%s %s %s", c.Role, c.Name, signed(c.PerRequest)))
	}
	return strings.Join(words, ", ")
}

// signed formats a number with its sign and one decimal.
func signed(v float64) string {
	text := fmt.Sprintf("%.1f", math.Abs(v))
	switch {
	case text == "0.0":
		return "±0"
	case v < 0:
		return "−" + text
	}
	return "+" + text
}

// signedInterval formats the bounds of a difference, or returns "" if they are unknown.
func signedInterval(i stat.Interval) string {
	if !i.Known() {
		return ""
	}
	return signed(i.Lo) + " to " + signed(i.Hi)
}

// writeDecompositions writes, for a terminal, the decompositions of contenders without a known
// cause, and those of comparisons.
func (t *Table) writeDecompositions(b *strings.Builder) {
	shown := slices.DeleteFunc(slices.Clone(t.Decompositions), func(d Decomposition) bool {
		return d.What == "" && (d.Of.Kind == Ceiling ||
			slices.ContainsFunc(t.Why, func(w Why) bool { return w.Name == d.Of.Name }))
	})
	if len(shown)+len(t.Usage.Missing) == 0 {
		return
	}
	if len(shown) > 0 {
		fmt.Fprintf(b, "Differences by part, in µs of CPU time and in system calls per request:\n\n")
	}
	for i := range shown {
		d := &shown[i]
		text := d.Sentence() + "."
		if d.What != "" {
			text = upper(d.What) + ": " + text
		}
		if calls := d.CallList(); calls != "" {
			text += " Calls: " + calls + "."
		}
		fmt.Fprintf(b, "  %s\n", strings.ReplaceAll(wrap(text, textWidth-4), "\n", "\n    "))
	}
	for _, missing := range t.Usage.Missing {
		fmt.Fprintf(b, "  %s.\n", upper(missing))
	}
	b.WriteByte('\n')
}
