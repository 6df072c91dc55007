package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/tarehq/tare/lab/stat"
	"github.com/tarehq/tare/lab/trial"
	loadreport "github.com/tarehq/tare/load/report"
)

// Verdict answers the experiment's question in one sentence, from the first
// condition that was measured. Only what the intervals bear out is said.
func (a *Analysis) Verdict() string {
	const noControl = "The control was not measured, so nothing can be compared with it."
	if len(a.Tables) == 0 {
		if e := a.control(); e != nil && e.Absent != "" {
			return noControl
		}
		return "Nothing was measured."
	}
	t := &a.Tables[0]
	control := t.Row(Control)
	if control == nil || control.Trials == 0 {
		return noControl
	}
	if a.entrantOf(Build) != nil {
		return a.builds(t)
	}
	if len(t.Pairs) > 0 {
		return upper(t.parted()) + "."
	}
	var said, same, unclear []string
	for i := range t.Rows {
		row := &t.Rows[i]
		if row.Kind != Way && row.Kind != Rival || row.Trials == 0 {
			continue
		}
		switch row.Finding {
		case stat.Same:
			same = append(same, row.Title)
		case stat.Unclear:
			unclear = append(unclear, row.Title)
		default:
			said = append(said, fmt.Sprintf("%s times that with %s", times(row.Ratio.Mid), row.Title))
		}
	}
	parts := []string{fmt.Sprintf("a request costs %s of processor time with %s", micros(control.WeightUs.Mid), control.Title)}
	parts = append(parts, said...)
	if len(same) > 0 {
		parts = append(parts, fmt.Sprintf("the same within %.0f %% with %s", 100*stat.SameWithin, list(same)))
	}
	sentence := list(parts)
	if len(unclear) > 0 {
		sentence += "; for " + list(unclear) + " this run cannot tell"
	}
	return upper(sentence) + "."
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// Remarks are the sentences behind the verdict.
func (a *Analysis) Remarks() (remarks []string) {
	if len(a.Tables) == 0 {
		return nil
	}
	t := &a.Tables[0]
	remarks = append(remarks, "That is with "+conditionText(t)+".")
	if c := t.Row(Ceiling); c != nil && c.Ratio.Known() {
		remarks = append(remarks, fmt.Sprintf("A loop that answers fixed bytes costs %s times as much as %s: no server could cost less.", times(c.Ratio.Mid), t.Row(Control).Title))
	}
	var kept []string
	for i := range a.Tables[1:] {
		other := &a.Tables[i+1]
		pairs := swapped(t, other)
		if len(pairs) == 0 {
			kept = append(kept, conditionText(other))
			continue
		}
		remarks = append(remarks, fmt.Sprintf("With %s these change places: %s.", conditionText(other), strings.Join(pairs, "; ")))
	}
	if len(kept) > 0 {
		remarks = append(remarks, "No pair is shown to change places with "+list(kept)+".")
	}
	return append(remarks, a.Notes...)
}

// swapped names the pairs of which one costs less in t and the other in u, both as
// the ratios of their blocks bear out.
func swapped(t, u *Table) (pairs []string) {
	for i := range t.Rows {
		for j := range t.Rows {
			a, b := &t.Rows[i], &t.Rows[j]
			if a.Kind == Twin || b.Kind == Twin {
				continue // that the control does is enough
			}
			if below(a, b) && below(u.named(b.Name), u.named(a.Name)) {
				pairs = append(pairs, a.Title+" and "+b.Title)
			}
		}
	}
	return pairs
}

// below reports whether a is shown to cost less than b.
func below(a, b *Row) bool {
	if a == nil || b == nil || a.Trials == 0 || b.Trials == 0 {
		return false
	}
	return ratioOfWeights(a.blocks, b.blocks, weightOf).Finding() == stat.Less
}

func (t *Table) named(name string) *Row {
	for i := range t.Rows {
		if t.Rows[i].Name == name {
			return &t.Rows[i]
		}
	}
	return nil
}

func conditionText(t *Table) string { return ConditionText(t.Condition) }

// ConditionText says under what trials were made, as it stands after "with".
func ConditionText(c trial.Condition) string {
	words := []string{"1 connection"}
	if c.Connections != 1 {
		words[0] = fmt.Sprintf("%d connections", c.Connections)
	}
	if c.Procs > 0 {
		words = append(words, fmt.Sprintf("GOMAXPROCS %d", c.Procs))
	}
	if c.Workers > 0 {
		words = append(words, fmt.Sprintf("%d of nginx's workers", c.Workers))
	}
	switch c.Cores {
	case 0:
		words = append(words, "all cores shared")
	case 1:
		words = append(words, "the servers on one core")
	default:
		words = append(words, fmt.Sprintf("the servers on %d cores", c.Cores))
	}
	if c.Saturated() {
		return list(words)
	}
	return fmt.Sprintf("%s, at %s requests/s", list(words), loadreport.Count(c.Rate))
}

// list joins words as in a sentence.
func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

func micros(us float64) string {
	switch {
	case us >= 100:
		return fmt.Sprintf("%.0f µs", us)
	case us >= 10:
		return fmt.Sprintf("%.1f µs", us)
	}
	return fmt.Sprintf("%.2f µs", us)
}

// times writes a ratio, or nothing where there is none.
func times(r float64) string {
	if math.IsNaN(r) {
		return ""
	}
	return fmt.Sprintf("%.2f", r)
}
