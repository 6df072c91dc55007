// Package stat compares measurements. It works on numbers only, without files, processes and
// formats.
//
// Words: a start is one set of processes of a contender, a round is a turn of all contenders, and a
// slice is one contender's value in a round. A probe is how long a fixed piece of work takes, which
// shows the speed of the CPU.
package stat

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Confidence is the level of every interval here.
const Confidence = 0.95

const (
	// Margin is how far from 1 a ratio has to be to count as a difference. A smaller difference on
	// one machine says nothing about another.
	Margin = 0.01

	// SameWithin is how far from 1 a ratio may be to count as no difference. It exceeds Margin,
	// because otherwise hardly any run of a few minutes could show that two contenders cost the
	// same.
	SameWithin = 0.02
)

// Interval is a median with the bounds of the true one at Confidence. Lo <= Mid <= Hi. With too few
// values Lo is -Inf and Hi is +Inf.
type Interval struct {
	Lo  float64
	Mid float64
	Hi  float64
}

// Known reports whether there were enough values for bounds.
func (i Interval) Known() bool {
	return !math.IsInf(i.Lo, 0) && !math.IsInf(i.Hi, 0) && !math.IsNaN(i.Mid)
}

// Contains reports whether v lies within the bounds.
func (i Interval) Contains(v float64) bool { return i.Lo <= v && v <= i.Hi }

// Median returns the median of the values and its interval. It assumes no distribution: the bounds
// are order statistics, which require at least six values.
func Median(values []float64) Interval {
	if len(values) == 0 {
		return Interval{math.Inf(-1), math.NaN(), math.Inf(1)}
	}
	s := benchmath.AssumeNothing.Summary(&benchmath.Sample{Values: slices.Sorted(slices.Values(values))}, Confidence)
	return Interval{s.Lo, s.Center, s.Hi}
}

// Known returns the values without NaN.
func Known(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), math.IsNaN)
}

// Difference returns the median difference of a and b. a[i] and b[i] were measured side by side, so
// disturbances of both cancel out. Pairs with NaN are left out.
func Difference(a, b []float64) Interval {
	more := make([]float64, len(a))
	for i := range a {
		more[i] = a[i] - b[i]
	}
	return Median(Known(more))
}

// Finding is the meaning of the interval of a ratio.
type Finding uint8

const (
	Unclear Finding = iota // a difference is neither shown nor excluded
	Same                   // no relevant difference
	Less                   // the first of the pair is smaller
	More                   // it is larger
)

func (f Finding) String() string {
	return [...]string{"unclear", "no difference", "less", "more"}[f]
}

// Finding classifies the interval of a ratio. An interval within SameWithin of 1 shows no
// difference. Any other that lies beyond Margin shows one. The rest are unclear.
func (i Interval) Finding() Finding {
	switch {
	case !i.Known():
		return Unclear
	case i.Lo >= 1-SameWithin && i.Hi <= 1+SameWithin:
		return Same
	case i.Hi < 1-Margin:
		return Less
	case i.Lo > 1+Margin:
		return More
	}
	return Unclear
}
