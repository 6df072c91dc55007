package page

import "math"

// Nines is how far a share is towards 1 on the axis of a percentile curve, on which 90, 99 and
// 99.9 % are equally far apart: 1, 2 and 3.
func Nines(share float64) float64 { return -math.Log10(1 - share) }

// mostNines bounds a curve: beyond, a histogram of as many requests as a run has says little.
const maxNines = 7

// LastNines is where the curve of n durations ends: where less than one of them lies beyond.
func LastNines(n int64) float64 {
	return math.Min(maxNines, math.Max(1, math.Log10(float64(max(n, 1)))))
}

// CurveShares are the shares of the percentile curve of n durations, in equal steps along its
// axis, so many for each nine.
func CurveShares(n int64, steps int) (shares []float64) {
	last := LastNines(n)
	for i := 0; float64(i) <= last*float64(steps); i++ {
		shares = append(shares, 1-math.Pow(10, -float64(i)/float64(steps)))
	}
	return shares
}

// NinesTicks are the shares that are numbers on the axis of a percentile curve.
func NinesTicks(x Axis, format func(share float64) string) (all []Tick) {
	for _, share := range []float64{0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 0.9999999} {
		if n := Nines(share); n <= x.Max {
			all = append(all, Tick{x.At(n), format(share)})
		}
	}
	return all
}

// Shares are the few shares that are told of n durations: about equally far apart on the axis of
// a percentile curve, up to where less than one of them lies beyond.
func Shares(n int64) (all []float64) {
	all = []float64{0.5, 0.75}
	last := LastNines(n) + 1e-9
	for nine := 1; float64(nine) <= last; nine++ {
		beyond := math.Pow(10, -float64(nine))
		for _, part := range []float64{1, 0.5, 0.25} {
			if share := 1 - part*beyond; Nines(share) <= last {
				all = append(all, math.Round(share*1e12)/1e12)
			}
		}
	}
	return all
}
