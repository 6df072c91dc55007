package lab

import (
	"time"

	"github.com/tarehq/tare/lab/report"
)

// Until says for how long to add blocks to those of the experiment. The zero value adds none.
type Until struct {
	// Width is how wide the intervals may be: half of one, as a share of its ratio.
	Width float64
	// Within is the time after which no block begins; DefaultWithin if 0.
	Within time.Duration
}

const (
	// DefaultWithin bounds the blocks that are added, where nothing else does.
	DefaultWithin = 30 * time.Minute
	// mostAdded is how many times the experiment's blocks there may be. Intervals shrink as
	// the root of their number: what is not narrow by then takes another machine.
	mostAdded = 20
	// narrowInARow is after how many blocks in a row the intervals have to be narrow. The first
	// time one is, it is often so by chance, and in the wrong place (stat's simulation).
	narrowInARow = 3
)

// most returns how many blocks there may be.
func (u Until) most(blocks int) int {
	if u.Width == 0 {
		return blocks
	}
	return min(maxBlocks, mostAdded*blocks)
}

// enough reports whether no block is to follow the first so many. It looks at how wide the
// intervals are, never at where they lie: a run that ended when it liked what it saw would see
// differences that are not there.
func (w *weighing) enough(blocks int, elapsed time.Duration) bool {
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
	if w.narrow++; report.Analyze(w.run).WidestInterval() > w.Until.Width {
		w.narrow = 0
	}
	return w.narrow == narrowInARow
}
