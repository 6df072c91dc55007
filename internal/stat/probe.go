package stat

import (
	"math"
	"slices"
)

// fewestProbed is the number of pairs, beyond one for each start, that a slope requires. With 8
// pairs simulated intervals contain the truth as often as without the correction.
const fewestProbed = 8

// Corrected returns a without what probes explain. a[s][r] was measured beside b[s][r], and probeA
// and probeB hold how long a fixed piece of work took during each. Ratios of the result to b vary
// less than those of a. They have the same expected value as long as contenders do not change the
// probes. Pairs with a missing probe, NaN or 0, are not corrected.
//
// Costs change with the probes by the slope of a line through the logarithms of all pairs, within
// starts and without outliers. A few pairs determine the slope badly. It is therefore drawn towards
// 1, about the mean of the measured slopes, and limited to 0 to 2.
func Corrected(a, b, probeA, probeB Starts) Starts {
	by := slope(deviations(a, b, probeA, probeB))
	corrected := make(Starts, len(a))
	for s := range a {
		for r, v := range a[s] {
			if probe := logRatio(probeA[s][r], probeB[s][r]); isFinite(probe) {
				v *= math.Exp(-by * probe)
			}
			corrected[s] = append(corrected[s], v)
		}
	}
	return corrected
}

// deviations returns, for complete pairs, how far the logarithms of the probes' ratios (x) and of
// the costs' ratios (y) are from the middle of their start. n is the number of starts.
func deviations(a, b, probeA, probeB Starts) (x, y []float64, n int) {
	for s := range a {
		var probes, costs []float64
		for r := range a[s] {
			probe, cost := logRatio(probeA[s][r], probeB[s][r]), logRatio(a[s][r], b[s][r])
			if isFinite(probe) && isFinite(cost) {
				probes, costs = append(probes, probe), append(costs, cost)
			}
		}
		if len(probes) == 0 {
			continue
		}
		n++
		centerX, centerY := midmean(probes), midmean(costs)
		for i := range probes {
			x, y = append(x, probes[i]-centerX), append(y, costs[i]-centerY)
		}
	}
	return x, y, n
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func logRatio(a, b float64) float64 { return math.Log(a / b) }

// slope returns the slope of the line through the origin that fits y best, without outliers. The
// pairs come from this number of starts.
func slope(x, y []float64, starts int) float64 {
	if len(x) < fewestProbed+starts {
		return usualSlope
	}
	const far = 3 // standard deviations
	by := fit(x, y)
	distance := make([]float64, len(x))
	for i := range x {
		distance[i] = math.Abs(y[i] - by*x[i])
	}
	const perDeviation = 1.4826 // ratio of the standard deviation to the median deviation of normal values
	sorted := slices.Sorted(slices.Values(distance))
	bound := far * perDeviation * sorted[len(sorted)/2]
	var nearX, nearY []float64
	for i := range x {
		if distance[i] <= bound {
			nearX, nearY = append(nearX, x[i]), append(nearY, y[i])
		}
	}
	return min(max(fit(nearX, nearY), 0), 2)
}

// usualSlope is about the mean of the measured slopes, and slopeSpread their standard deviation.
const usualSlope, slopeSpread = 1.0, 0.5

// fit returns the slope of the line through the origin that fits y best. The more the pairs
// scatter, the closer it is drawn to usualSlope.
func fit(x, y []float64) float64 {
	xx, xy, yy := 0.0, 0.0, 0.0
	for i := range x {
		xx += x[i] * x[i]
		xy += x[i] * y[i]
		yy += y[i] * y[i]
	}
	if xx == 0 {
		return usualSlope
	}
	scatter := max(yy-xy*xy/xx, 0) / float64(len(x))
	prior := scatter / (slopeSpread * slopeSpread)
	return (xy + prior*usualSlope) / (xx + prior)
}
