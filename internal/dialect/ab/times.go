package ab

import (
	"cmp"
	"math"
	"slices"
)

// column holds ab's statistics of one kind of time, in milliseconds.
type column struct {
	min, mean, median, max int64
	deviation              float64
}

// columnOf computes a column as ab does: from microseconds, with integer means. If the number of
// values is odd, ab's median is the mean of two values.
func columnOf(requests []request, time func(*request) int64) column {
	n := len(requests)
	sorted := make([]int64, n)
	var sum int64
	for i := range requests {
		sorted[i] = time(&requests[i])
		sum += sorted[i]
	}
	slices.Sort(sorted)
	mean := sum / int64(n)
	var squares float64
	for _, t := range sorted {
		d := float64(t - mean)
		squares += d * d
	}
	c := column{min: millis(sorted[0]), mean: millis(mean), median: sorted[n/2], max: millis(sorted[n-1])}
	if n > 1 && n%2 == 1 {
		c.median = (sorted[n/2] + sorted[n/2+1]) / 2
	}
	c.median = millis(c.median)
	if n > 1 {
		c.deviation = math.Sqrt(squares/float64(n-1)) / 1000
	}
	return c
}

func millis(micros int64) int64 { return (micros + 500) / 1000 }

func connectTime(r *request) int64    { return r.connect }
func processingTime(r *request) int64 { return r.processing() }
func waitTime(r *request) int64       { return r.wait }
func totalTime(r *request) int64      { return r.total }

// byTotal returns the requests by total time, the order of ab's percentages and plot.
func byTotal(requests []request) []request {
	sorted := slices.Clone(requests)
	slices.SortStableFunc(sorted, func(a, b request) int { return cmp.Compare(a.total, b.total) })
	return sorted
}

func meanTotal(requests []request) float64 {
	var sum int64
	for i := range requests {
		sum += requests[i].total
	}
	return float64(sum) / 1000 / float64(max(len(requests), 1))
}
