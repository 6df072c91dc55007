package stat

import (
	"math"
	"slices"
)

// fewestProbed is how many pairs, beyond one for each start, a slope is taken from. With 8 simulated intervals
// hold the truth as often as without it.
const fewestProbed = 8

// Corrected returns a without what probes explain: a[s][r] was measured beside b[s][r], and probeA and
// probeB tell how long a fixed piece of work took meanwhile. Ratios of the result to b vary less than
// those of a itself, and have the same expected value, if the contenders have no part in the probes.
//
// How much costs change with the probes is the slope of a line through all pairs, as logarithms and within
// starts. Pairs that are far from it do not count for it. With few pairs costs are taken to change as much as
// the probes do, which is about the mean of what was measured. Without probes it returns a.
func Corrected(a, b, probeA, probeB Starts) Starts {
	costs := pairs(a, b, logRatio)
	probes := pairs(probeA, probeB, logRatio)
	var x, y []float64
	for s := range probes {
		if len(costs) != len(probes) || len(costs[s]) != len(probes[s]) {
			return a
		}
		centerX, centerY := midmean(probes[s]), midmean(costs[s])
		for r := range probes[s] {
			x, y = append(x, probes[s][r]-centerX), append(y, costs[s][r]-centerY)
		}
	}
	if len(x) == 0 {
		return a
	}
	by := 1.0
	if len(x) >= fewestProbed+len(probes) {
		by = slope(x, y)
	}
	corrected := make(Starts, len(a))
	for s := range a {
		for r := range a[s] {
			corrected[s] = append(corrected[s], a[s][r]*math.Exp(-by*logRatio(probeA[s][r], probeB[s][r])))
		}
	}
	return corrected
}

func logRatio(a, b float64) float64 { return math.Log(a / b) }

// slope returns that of the line through the origin that fits y best, without those of the pairs that are
// far from the line through all.
func slope(x, y []float64) float64 {
	const far = 3 // standard deviations
	by := slopeOfAll(x, y)
	rest := make([]float64, len(x))
	for i := range x {
		rest[i] = math.Abs(y[i] - by*x[i])
	}
	const perDeviation = 1.4826 // of normal values, standard deviations in the median deviation
	sorted := slices.Sorted(slices.Values(rest))
	bound := far * perDeviation * sorted[len(sorted)/2]
	var nearX, nearY []float64
	for i := range x {
		if rest[i] <= bound {
			nearX, nearY = append(nearX, x[i]), append(nearY, y[i])
		}
	}
	return slopeOfAll(nearX, nearY)
}

func slopeOfAll(x, y []float64) float64 {
	xx, xy := 0.0, 0.0
	for i := range x {
		xx += x[i] * x[i]
		xy += x[i] * y[i]
	}
	if xx == 0 {
		return 0
	}
	return xy / xx
}
