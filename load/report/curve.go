package report

import (
	"math"
	"time"

	"github.com/tarehq/tare/load/hist"
)

// point is a quantile: so large a share of all does not exceed that time.
type point struct {
	share float64
	time  time.Duration
}

// nines is how far a share is towards 1 on the axis of a percentile curve, on which 90, 99 and
// 99.9 % are equally far apart: 1, 2 and 3.
func nines(share float64) float64 { return -math.Log10(1 - share) }

// mostNines bounds a curve: beyond, a histogram of as many requests as a run has says little.
const mostNines = 7

// lastNines is where the curve of n durations ends: where less than one of them lies beyond.
func lastNines(n int64) float64 {
	return math.Min(mostNines, math.Max(1, math.Log10(float64(max(n, 1)))))
}

// curve is a percentile curve, in equal steps along its axis, so many for each nine.
func curve(h *hist.Histogram, steps int) (points []point) {
	last := lastNines(h.Count())
	for i := 0; float64(i) <= last*float64(steps); i++ {
		share := 1 - math.Pow(10, -float64(i)/float64(steps))
		points = append(points, point{share, h.Quantile(share)})
	}
	return points
}

// shares are the percentiles that a curve drawn in text has: about equally far apart on the
// axis of nines, up to where less than one of n durations lies beyond.
func shares(n int64) (all []float64) {
	all = []float64{0.5, 0.75}
	last := lastNines(n) + 1e-9
	for nine := 1; float64(nine) <= last; nine++ {
		beyond := math.Pow(10, -float64(nine))
		for _, part := range []float64{1, 0.5, 0.25} {
			if share := 1 - part*beyond; nines(share) <= last {
				all = append(all, math.Round(share*1e12)/1e12)
			}
		}
	}
	return all
}
