package page

import (
	"math"
	"strconv"
)

// Axis maps values from Min to Max to positions along a line from From to To.
type Axis struct {
	Min, Max float64
	Log      bool // logarithmic; Min must be above 0
	From, To float64
}

// Tick is a labeled position on an axis.
type Tick struct {
	At    float64
	Label string
}

// At returns the position of a value, clamped to the axis.
func (a Axis) At(v float64) float64 {
	lo, hi := a.Min, a.Max
	if a.Log {
		v, lo, hi = math.Log(math.Max(v, a.Min)), math.Log(lo), math.Log(hi)
	}
	share := math.Min(1, math.Max(0, (v-lo)/(hi-lo)))
	return math.Round(10*(a.From+share*(a.To-a.From))) / 10
}

// Ticks returns round numbers from Min to Max: multiples of 1, 2 or 5.
func (a Axis) Ticks(format func(float64) string) (all []Tick) {
	if a.Log {
		for e := math.Floor(math.Log10(a.Min)); e <= math.Ceil(math.Log10(a.Max)); e++ {
			for _, m := range []float64{1, 2, 5} {
				if v := m * math.Pow(10, e); v >= a.Min*0.999 && v <= a.Max*1.001 {
					all = append(all, Tick{a.At(v), format(v)})
				}
			}
		}
		return all
	}
	const about = 6
	step := roundStep((a.Max - a.Min) / about)
	for v := math.Ceil(a.Min/step) * step; v <= a.Max*1.0001; v += step {
		all = append(all, Tick{a.At(v), format(v)})
	}
	return all
}

func roundStep(rough float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, m := range []float64{1, 2, 5} {
		if rough <= m*p {
			return m * p
		}
	}
	return 10 * p
}

// Number formats a number with at most four digits.
func Number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// Nines maps a share to its position on the axis of a percentile curve. There 90, 99 and 99.9 % are
// equally far apart: at 1, 2 and 3.
func Nines(share float64) float64 { return -math.Log10(1 - share) }

// maxNines limits the curve. A run has too few requests to show more.
const maxNines = 7

// LastNines returns where the curve of n durations ends: less than one of them lies beyond.
func LastNines(n int64) float64 {
	return math.Min(maxNines, math.Max(1, math.Log10(float64(max(n, 1)))))
}

// CurveShares returns the shares of the percentile curve of n durations, with a number of equal
// steps for each nine.
func CurveShares(n int64, steps int) (shares []float64) {
	last := LastNines(n)
	for i := 0; float64(i) <= last*float64(steps); i++ {
		shares = append(shares, 1-math.Pow(10, -float64(i)/float64(steps)))
	}
	return shares
}

// NinesTicks returns the labeled shares on the axis of a percentile curve.
func NinesTicks(x Axis, format func(share float64) string) (all []Tick) {
	for _, share := range []float64{0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 0.9999999} {
		if n := Nines(share); n <= x.Max {
			all = append(all, Tick{x.At(n), format(share)})
		}
	}
	return all
}

// Shares returns the few shares that a table of n durations shows. They are about equally far apart
// on the axis of a percentile curve, and at least one duration lies beyond the last.
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
