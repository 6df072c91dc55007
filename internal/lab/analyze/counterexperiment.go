package analyze

import (
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

const (
	// goneBound is the largest remaining share of a difference if the setting is the cause.
	// keptBound is the smallest if it is not.
	goneBound = 0.25
	keptBound = 0.75
)

// Outcome is what becomes of a difference when a setting is changed.
type Outcome uint8

// The outcomes.
const (
	Gone    Outcome = iota // the setting was the cause
	Smaller                // the setting was one of several causes
	Kept                   // the setting was not the cause
)

// CounterDifferences returns the medians of the contender's difference from the control, without
// and with the setting changed.
func CounterDifferences(x *sample.CounterExperiment) (before, after float64) {
	return stat.Difference(x.Of, x.Control).Mid, stat.Difference(x.Toggled, x.Control).Mid
}

// OutcomeOf returns what became of the difference. It is meaningless for a failed test.
func OutcomeOf(x *sample.CounterExperiment) Outcome {
	before, after := CounterDifferences(x)
	switch left := after / before; {
	case left <= goneBound:
		return Gone
	case left < keptBound:
		return Smaller
	}
	return Kept
}
