package explain

import (
	"fmt"
	"math"
)

const (
	// twinBound is the smallest difference of the twin from the control that counts as noise.
	twinBound = 0.05
	// chanceFactor is the multiple of the twin's difference that a contender's must reach to exceed
	// chance.
	chanceFactor = 2
)

// noise compares the contender with the twin. If the twin differs from the control by at least half
// as much, there is nothing to explain.
func noise(c *Case) Finding {
	if c.Twin == nil || c.HasDifference || c.Control.WeightUs() <= 0 {
		return Finding{}
	}
	moved := c.Twin.WeightUs()/c.Control.WeightUs() - 1
	differs := c.Of.WeightUs()/c.Control.WeightUs() - 1
	if math.Abs(moved) < twinBound || math.Abs(differs) > chanceFactor*math.Abs(moved) {
		return Finding{}
	}
	return Finding{
		Sentence: fmt.Sprintf("the twin, a second copy of the control, differs from it by %s, and other programs used %.1f processors: a difference of %s may be chance",
			percent(math.Abs(moved)), c.Of.OthersCPUs, percent(math.Abs(differs))),
		Explains: Weight, Share: 1,
		Counter: Counter{Setting: Repeat, To: "another run on a quiet machine"},
	}
}
