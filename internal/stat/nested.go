package stat

import (
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"
	"golang.org/x/perf/benchmath"
)

// Starts are the values of one contender: for each start of its processes, one value per round. NaN
// is a missing value.
type Starts [][]float64

// Estimate is a typical value with its interval, from values that are nested in starts. The
// interval covers both kinds of chance: slices differ within a start, and starts differ from each
// other, for example by memory layout. It therefore predicts other starts, too.
type Estimate struct {
	Interval

	// Slices is the standard deviation of a slice within a start, without the outliers that the
	// estimate ignores. Starts is the standard deviation between starts beyond what slices explain,
	// or 0 if they explain all. The interval shrinks as the root of (Starts² + Slices²/rounds) /
	// starts. If no start has two values, Starts includes both.
	//
	// Both are shares: 0.01 is 1 %.
	Slices float64
	Starts float64

	SliceCount int // values in all starts
}

// FewestStarts is the number of starts that bounds require. Student's t is valid for two, but then
// it is too wide to be useful. The fewer starts there are, the more it depends on a normal
// distribution.
const FewestStarts = 5

// Ratios returns the ratio of a to b. a[s][r] and b[s][r] were measured side by side in round r of
// start s. Pairs with a missing value are left out.
//
// The value of a start is the mean of the middle half of the logarithms of its ratios, which
// ignores outliers. The mean of the starts' values is the estimate. Student's t gives the bounds,
// with one degree of freedom less than there are starts. The noise of slices needs no model, even
// if it is autocorrelated or comes in phases: its effect on a start's value is part of the spread
// between starts. Starts have to be independent of each other.
//
// More slices narrow the interval only down to the spread of starts; more starts narrow it further.
// One value per start works as well: the interval is then narrower than that of order statistics.
func Ratios(a, b Starts) Estimate {
	e := estimate(logRatios(a, b))
	e.Mid = math.Exp(e.Mid)
	if e.Known() {
		e.Lo, e.Hi = math.Exp(e.Lo), math.Exp(e.Hi)
	}
	return e
}

// Corrected returns a without what probes explain. probeA[s][r] and probeB[s][r] are how long a
// fixed piece of work took while a[s][r] and the value beside it were measured. A value is divided
// by the ratio of its probes: what slows the work slows the contenders as much. Ratios to the values
// beside it vary less then, and have the same expected value as long as contenders do not change the
// probes. Values with a missing probe, NaN or 0, are not corrected.
//
// Slopes that were measured, of costs over probes, had a mean of about 1 and a standard deviation of
// 0.5. Fitting a slope to the pairs of each comparison made no narrower intervals: of 142 in
// docs/results they had half a width of 3.1 % with either.
func Corrected(a, probeA, probeB Starts) Starts {
	corrected := make(Starts, len(a))
	for s := range a {
		for r, v := range a[s] {
			if by := probeB[s][r] / probeA[s][r]; by > 0 && isFinite(by) {
				v *= by
			}
			corrected[s] = append(corrected[s], v)
		}
	}
	return corrected
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// logRatios returns the logarithms of the ratios. It leaves out starts without values.
func logRatios(a, b Starts) Starts {
	if len(a) != len(b) {
		panic("stat: BUG: starts are not in pairs")
	}
	var compared Starts
	for s := range a {
		if len(a[s]) != len(b[s]) {
			panic("stat: BUG: rounds are not in pairs")
		}
		var rounds []float64
		for r := range a[s] {
			if v := math.Log(a[s][r] / b[s][r]); isFinite(v) {
				rounds = append(rounds, v)
			}
		}
		if len(rounds) > 0 {
			compared = append(compared, rounds)
		}
	}
	return compared
}

func estimate(values Starts) Estimate {
	e := Estimate{Interval: Interval{math.Inf(-1), math.NaN(), math.Inf(1)}}
	if len(values) == 0 {
		return e
	}
	middles := make([]float64, len(values))
	perRound, several := 0.0, 0 // mean of 1/rounds; starts with several rounds
	for s, rounds := range values {
		middles[s] = midmean(rounds)
		e.SliceCount += len(rounds)
		perRound += 1 / float64(len(rounds)) / float64(len(values))
		if len(rounds) > 1 {
			several++
			e.Slices += float64(len(rounds)) * midmeanVariance(rounds)
		}
	}
	if several > 0 {
		e.Slices = math.Sqrt(e.Slices / float64(several))
	}
	e.Mid = stats.Mean(middles)
	if len(middles) > 1 {
		e.Starts = math.Sqrt(max(0, stats.Variance(middles)-e.Slices*e.Slices*perRound))
	}
	if len(middles) >= FewestStarts {
		s := benchmath.AssumeNormal.Summary(&benchmath.Sample{Values: middles}, Confidence)
		e.Lo, e.Hi = s.Lo, s.Hi
	}
	return e
}

// midmean returns the mean of the middle half of the values. It leaves out a quarter of them at
// each end, with fractions of values if necessary. Two disturbed values at each end of eight do not
// change it. For normal values it is almost as precise as the mean.
func midmean(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n, sum := float64(len(sorted)), 0.0
	for i, v := range sorted {
		weight := min(3*n/4, float64(i+1)) - max(n/4, float64(i))
		sum += v * max(0, weight)
	}
	return sum / (n / 2)
}

// midmeanVariance returns the variance of the values' midmean by the jackknife: from the midmeans
// of all values but one.
func midmeanVariance(values []float64) float64 {
	without, rest := make([]float64, len(values)), make([]float64, 0, len(values))
	for i := range values {
		rest = append(append(rest[:0], values[:i]...), values[i+1:]...)
		without[i] = midmean(rest)
	}
	n := float64(len(values))
	return stats.Variance(without) * (n - 1) * (n - 1) / n
}
