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
