package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarehq/tare/lab/stat"
	"github.com/tarehq/tare/lab/trial"
)

// Decomposition is by how much a request costs more with one contender than with another, and
// where: the total is the sum of the parts and of the residual.
//
// Each figure is the median of the blocks' differences. Within a block the parts add up to the
// total; medians need not, and what they leave is the residual. Processes of a role that is not
// known are in it, too.
type Decomposition struct {
	What       string // the part in which they differ, as a comparison says; "" if Than is the control
	Of, Than   *Row
	TotalUs    stat.Interval
	Parts      []PartDifference // in the order in which a request meets them
	ResidualUs float64
	Calls      []CallDifference // the largest first; none if they were not counted
}

// PartDifference is one part of a decomposition.
type PartDifference struct {
	Role string
	Sys  bool // the kernel's time on behalf of the role, not its own
	Us   stat.Interval

	oneSided bool // one of the two has no processes of the role
}

// Name is the part in words.
func (p *PartDifference) Name() string { return p.Role + " " + p.kind() }

func (p *PartDifference) kind() string {
	if p.Sys {
		return "sys"
	}
	return "user"
}

// Part returns the part of a name; nil if neither of the two has processes of the role.
func (d *Decomposition) Part(name string) *PartDifference {
	i := slices.IndexFunc(d.Parts, func(p PartDifference) bool { return p.Name() == name })
	if i < 0 {
		return nil
	}
	return &d.Parts[i]
}

// PartNames are those of all parts that a table's decompositions have.
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

// CallDifference is how many system calls of a name a role makes more per request.
type CallDifference struct {
	Role, Name string
	PerRequest float64
}

// decompose takes apart what each contender costs more than the control, and what the run's
// comparisons are of.
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
		d.apart(d.Of.blocks, besides(run, d.Than.Entrant, t.Condition, d.Of.blocks))
		d.Calls = callDifferences(counted(run, d.Of.Name, t.Condition), counted(run, d.Than.Name, t.Condition))
	}
	return slices.DeleteFunc(all, func(d Decomposition) bool { return math.IsNaN(d.TotalUs.Mid) }) // no block has both
}

// apart fills in the total, the parts and the residual from the records of both, by block.
func (d *Decomposition) apart(of, than []*trial.Record) {
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

// rounding is what floating point may leave of sums of microseconds.
const rounding = 1e-9

func hasRole(blocks []*trial.Record, role string) bool {
	return slices.ContainsFunc(blocks, func(r *trial.Record) bool { return r != nil && len(r.Costs[role]) > 0 })
}

const (
	// leastCalls is how many calls per request more or fewer are worth a word.
	leastCalls = 0.05
	// saidCalls is how many names are said of one contender.
	saidCalls = 6
)

// callDifferences compares the system calls of two contenders, the generator's left out.
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
		return cmp.Or(cmp.Compare(math.Abs(b.PerRequest), math.Abs(a.PerRequest)), cmp.Compare(a.Role+a.Name, b.Role+b.Name))
	})
	return all
}

// Says is the decomposition as a sentence.
func (d *Decomposition) Sentence() string {
	more, by := "more", d.TotalUs.Mid
	if by < 0 {
		more, by = "less", -by
	}
	chance := ""
	if d.TotalUs.Known() && d.TotalUs.Contains(0) {
		chance = ", which may be chance"
	}
	return fmt.Sprintf("%s costs %s %s than %s%s: %s", d.Of.Title, micros(by), more, d.Than.Title, chance, strings.Join(d.said(), ", "))
}

// said are the parts, each with its sign. A role that only one of the two has is said as a
// whole, and a residual only if it can be seen.
func (d *Decomposition) said() (words []string) {
	for i := 0; i < len(d.Parts); i++ {
		p := &d.Parts[i]
		if p.oneSided {
			words = append(words, p.Role+" "+signed(p.Us.Mid+d.Parts[i+1].Us.Mid)) // user and sys stand together
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

// CallList lists the system calls that differ most.
func (d *Decomposition) CallList() string {
	var words []string
	for _, c := range d.Calls[:min(saidCalls, len(d.Calls))] {
		words = append(words, fmt.Sprintf("%s %s %s", c.Role, c.Name, signed(c.PerRequest)))
	}
	return strings.Join(words, ", ")
}

// signed writes a number with its sign and one decimal.
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

// signedInterval writes the bounds of a difference; "" if they are not known.
func signedInterval(i stat.Interval) string {
	if !i.Known() {
		return ""
	}
	return signed(i.Lo) + " to " + signed(i.Hi)
}

// writeDecompositions writes, for a terminal, those of which no cause is known, and those of the run's comparisons.
func (t *Table) writeDecompositions(b *strings.Builder) {
	shown := slices.DeleteFunc(slices.Clone(t.Decompositions), func(d Decomposition) bool {
		return d.What == "" && (d.Of.Kind == Ceiling || slices.ContainsFunc(t.Why, func(w Why) bool { return w.Name == d.Of.Name }))
	})
	if len(shown)+len(t.Usage.Missing) == 0 {
		return
	}
	if len(shown) > 0 {
		fmt.Fprintf(b, "Where the difference is, in µs of CPU time and in system calls per request:\n\n")
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
