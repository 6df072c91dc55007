package lab

import (
	"time"

	"github.com/tarehq/tare/internal/lab/analyze"
)

// Until determines how many blocks follow those of the experiment. The zero value adds none.
type Until struct {
	// Width is the target for intervals: half of an interval's width, as a share of its ratio.
	Width float64
	// Within is the time after which no block begins; 0 is DefaultWithin.
	Within time.Duration
}

const (
	// DefaultWithin limits the time of a run with Until.
	DefaultWithin = 30 * time.Minute
	// mostAdded limits all blocks, as a multiple of the experiment's. Intervals shrink with the
	// square root of the number of blocks, so that more blocks would hardly help.
	mostAdded = 20
	// narrowInARow is the number of consecutive blocks after which all intervals must be narrow.
	// The first narrow interval is often narrow by chance, and misplaced (a simulation in package
	// stat).
	narrowInARow = 3
)

// Most returns the highest number of blocks.
func (u Until) Most(blocks int) int {
	if u.Width == 0 {
		return blocks
	}
	return min(maxBlocks, mostAdded*blocks)
}

// enough reports whether the run ends after the given number of blocks. It considers only the width
// of intervals, never their position: a run that ends at a desired result finds false differences.
func (w *runner) enough(blocks int, elapsed time.Duration) bool {
	if blocks < w.trials.Blocks {
		return false
	}
	within := w.Until.Within
	if within == 0 {
		within = DefaultWithin
	}
	if w.Until.Width == 0 || elapsed >= within {
		return true
	}
	if w.narrow++; analyze.Analyze(w.run).WidestInterval() > w.Until.Width {
		w.narrow = 0
	}
	return w.narrow == narrowInARow
}
