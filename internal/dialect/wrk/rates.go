package wrk

import (
	"maps"
	"slices"

	"github.com/tarehq/tare/load"
)

const (
	// windowMilliseconds is how long a window of a Result's is.
	windowMilliseconds = 100
	// hair is the part of a window by which a measured time may be short of a whole one.
	windowTolerance = 1e-6
)

// rates are those of single threads, in requests a second, taken ten times a second.
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

// sinceLast adds to counts what wrk 4 makes of a thread's windows: the rate since the last window
// in which anything came.
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

// sinceStart adds to counts what wrk 1.0 makes of them: the rate since the start, in whole
// thousands.
func sinceStart(windows []uint32, counts map[int64]int64) {
	var complete, elapsed int64
	for _, n := range windows {
		elapsed += windowMilliseconds
		complete += int64(n)
		counts[complete/elapsed*1000]++
	}
}
