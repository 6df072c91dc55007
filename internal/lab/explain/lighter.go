package explain

import (
	"fmt"
	"math"
)

// Thresholds of differences in which the contender is the lighter one.
const (
	// ownBound is the smallest share of the control's weight that is explained. Smaller differences
	// come from where code happens to lie in memory.
	ownBound = 0.1
	// chanceFactor is the multiple of the twin's difference that a contender's must reach to exceed
	// chance.
	chanceFactor = 2
)

// saved returns by how much the contender is lighter than the control. It returns 0 if that may be
// chance.
func (c *Case) saved() float64 {
	saved, control := -c.extraUs(), c.Control.WeightUs()
	if c.IsTwin || saved < ownBound*control ||
		!c.HasDifference && c.Twin != nil && saved <= chanceFactor*math.Abs(c.Twin.WeightUs()-control) {
		return 0
	}
	return saved
}

// controlFindings returns why the control is heavier, which explains why the contender is lighter.
func controlFindings(c *Case) (found []Finding) {
	if c.saved() == 0 {
		return nil
	}
	about := Case{Of: c.Control, Control: c.Of}
	for _, r := range Rules() {
		if f := r.find(&about); f.Sentence != "" && f.Explains == Weight {
			f.Cause, f.Sentence = r.Cause, fmt.Sprintf("%s costs more: %s", c.Control.Title, f.Sentence)
			f.Counter.ChangesControl = true
			f.Counter.To += " in " + c.Control.Title
			found = append(found, f)
		}
	}
	return found
}
