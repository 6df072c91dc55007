package profile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Change is how much more CPU time per request a contender spends in one place than the control,
// in microseconds.
type Change struct {
	What    string
	Control float64
	Of      float64
}

// More returns the difference.
func (c *Change) More() float64 { return c.Of - c.Control }

// Areas compares the own time of areas. The largest difference is first, whatever its sign.
func Areas(of, control *Profile) []Change {
	return changes(of, control, func(s *Stack) string { return s.Area() })
}

// Functions compares the own time of functions.
func Functions(of, control *Profile) []Change {
	return changes(of, control, func(s *Stack) string {
		if len(s.Frames) == 0 {
			return "[unknown]"
		}
		return s.Frames[len(s.Frames)-1].Text()
	})
}

func changes(of, control *Profile, name func(*Stack) string) []Change {
	sums := make(map[string]*Change)
	add := func(p *Profile, to func(*Change) *float64) {
		for i := range p.Stacks {
			what := name(&p.Stacks[i])
			if sums[what] == nil {
				sums[what] = &Change{What: what}
			}
			*to(sums[what]) += p.Us(p.Stacks[i].Count)
		}
	}
	add(of, func(c *Change) *float64 { return &c.Of })
	add(control, func(c *Change) *float64 { return &c.Control })
	var all []Change
	for _, c := range sums {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b Change) int {
		return cmp.Or(cmp.Compare(math.Abs(b.More()), math.Abs(a.More())), cmp.Compare(a.What, b.What))
	})
	return all
}

// Thresholds of a sentence: a part is named if it carries this share of the difference, and at most
// namedParts are.
const (
	namedShare = 0.08
	namedParts = 4
	// leastDifference is the share of the control's time from which on a difference is explained.
	// Samples of a second vary by that much.
	leastDifference = 0.05
)

// Explain returns sentences that name the areas and functions that carry the difference to the
// control. Without a clear difference it returns "".
func Explain(of, control *Profile) string {
	mine, theirs := of.Us(of.Samples()), control.Us(control.Samples())
	total := mine - theirs
	if math.Abs(total) < leastDifference*theirs || of.Samples() == 0 || control.Samples() == 0 {
		return ""
	}
	word := "more"
	if total < 0 {
		word = "less"
	}
	areas := carriers(Areas(of, control), total)
	text := fmt.Sprintf("%s spends %.1f µs %s on a request than %s", of.Title, math.Abs(total), word, control.Title)
	if len(areas) == 0 {
		return text + ", in many small parts."
	}
	text += ": " + strings.Join(areas, ", ") + "."
	if functions := carriers(Functions(of, control), total); len(functions) > 0 {
		text += " By function: " + strings.Join(functions, ", ") + "."
	}
	return text
}

// carriers returns the changes that carry the most of a difference, with their shares.
func carriers(all []Change, total float64) (texts []string) {
	for i := range all {
		share := all[i].More() / total
		if share < namedShare || len(texts) == namedParts {
			continue
		}
		texts = append(texts, fmt.Sprintf("%.1f µs (%.0f %%) is %s", math.Abs(all[i].More()), 100*share, all[i].What))
	}
	return texts
}
