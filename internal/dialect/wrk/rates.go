package wrk

import (
	"maps"
	"slices"

	"github.com/tarehq/tare/load"
)

const (
	windowMilliseconds = 100  // length of a window of load.Result
	windowTolerance    = 1e-6 // part of a window that may be missing from the last one
)

// rates returns the distribution of each thread's requests per second, sampled ten times a second.
func (c *Command) rates(r *load.Result) *distribution {
	whole := int(r.Seconds*1000/windowMilliseconds + windowTolerance)
	of := sinceLast
	if c.isV1 {
		of = sinceStart
	}
	counts := make(map[int64]int64)
	for _, windows := range r.Windows {
		of(windows[:min(whole, len(windows))], counts)
	}
	d := new(distribution)
	for _, value := range slices.Sorted(maps.Keys(counts)) {
		d.bars = append(d.bars, bar{value, counts[value]})
	}
	return d
}

// sinceLast adds a thread's rates as wrk 4 computes them: since the last window with a response.
func sinceLast(windows []uint32, counts map[int64]int64) {
	elapsed := 0
	for _, n := range windows {
		elapsed += windowMilliseconds
		if n > 0 {
			counts[int64(float64(n)/float64(elapsed)*1000)]++
			elapsed = 0
		}
	}
}

// sinceStart adds a thread's rates as wrk 1.0 computes them: since the start, rounded down to
// thousands.
func sinceStart(windows []uint32, counts map[int64]int64) {
	var complete, elapsed int64
	for _, n := range windows {
		elapsed += windowMilliseconds
		complete += int64(n)
		counts[complete/elapsed*1000]++
	}
}
