package explain

import (
	"fmt"
	"math"
)

const (
	// unrest is by how much the twin may be off before a run is called unquiet.
	unrest = 0.05
	// drowned is how many times the twin's difference a contender's must be to be more than
	// chance.
	drowned = 2
)

// noise looks at the twin: where the control differs from itself by half as much as the
// contender does, there is nothing to explain.
func noise(c *Case) Finding {
	if c.Twin == nil || c.HasDifference || c.Control.WeightUs() <= 0 {
		return Finding{}
	}
	moved := c.Twin.WeightUs()/c.Control.WeightUs() - 1
	differs := c.Of.WeightUs()/c.Control.WeightUs() - 1
	if math.Abs(moved) < unrest || math.Abs(differs) > drowned*math.Abs(moved) {
		return Finding{}
	}
	return Finding{
		Sentence: fmt.Sprintf("the twin, which is the control again, differs from it by %s, and other programs used %.1f processors: a difference of %s is no more than chance",
			percent(math.Abs(moved)), c.Of.OthersCPUs, percent(math.Abs(differs))),
		Numbers:  []Number{{"weight as a multiple of the control's", 1 + differs, 1}, {"the twin's", 1 + moved, 1}},
		Explains: Weight, Share: 1,
		Counter: Counter{Setting: Repeat, To: "the same again on a quiet machine"},
	}
}
