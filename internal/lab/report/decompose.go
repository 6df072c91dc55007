package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

// differenceSentence describes the decomposition.
func differenceSentence(d *analyze.Decomposition) string {
	more, by := "more", d.TotalUs.Mid
	if by < 0 {
		more, by = "less", -by
	}
	chance := ""
	if d.TotalUs.Known() && d.TotalUs.Contains(0) {
		chance = ", which may be chance"
	}
	return fmt.Sprintf("%s costs %s %s than %s%s: %s", d.Of.Title, micros(by), more, d.Than.Title, chance,
		strings.Join(partTexts(d), ", "))
}

// partTexts returns the parts with their signs. User and system time of a role that only one of the
// two has are added up. A negligible residual is left out.
func partTexts(d *analyze.Decomposition) (words []string) {
	for i := 0; i < len(d.Parts); i++ {
		p := &d.Parts[i]
		if p.OneSided {
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

// listedCalls is the number of system calls that are listed for a contender.
const listedCalls = 6

// callList returns the system calls that differ most.
func callList(d *analyze.Decomposition) string {
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

// writeDecompositions writes the decompositions of contenders without a known cause, and those of
// comparisons.
func (t *Table) writeDecompositions(doc *document.Document) {
	shown := slices.DeleteFunc(slices.Clone(t.Decompositions), func(d analyze.Decomposition) bool {
		return d.What == "" && (d.Of.Kind == sample.Ceiling ||
			slices.ContainsFunc(t.Why, func(w analyze.Why) bool { return w.Name == d.Of.Name }))
	})
	var items []string
	for i := range shown {
		d := &shown[i]
		text := differenceSentence(d) + "."
		if d.What != "" {
			text = upper(d.What) + ": " + text
		}
		if calls := callList(d); calls != "" {
			text += " Calls: " + calls + "."
		}
		items = append(items, text)
	}
	if len(items) > 0 {
		doc.Heading("Differences by part, in µs of CPU time and in system calls per request:")
	}
	for _, missing := range t.Usage.Missing {
		items = append(items, upper(missing)+".")
	}
	doc.Items(items)
}
