package load

import (
	"time"

	"github.com/tarehq/tare/load/hist"
)

// interval is what a worker measured in one second.
type interval struct {
	second  Second
	latency *hist.Histogram // since due; in a closed loop, since sent

	// The tally's counts before it.
	statuses [1000]uint64
	errors   Errors
}

func (w *worker) rollSecond() {
	if !w.tally.counting || w.run.isSession() {
		return
	}
	if n := int((w.now - w.began) / int64(time.Second)); n > w.current.second.Index {
		w.deliverSecond()
		w.current.second.Index = n
	}
}

func (w *worker) deliverSecond() {
	if !w.run.isSession() {
		w.countKinds()
	}
	w.run.parts <- unpackedSecond{w.current.second, w.current.latency, 1}
	w.current.second = Second{}
	select {
	case w.current.latency = <-w.run.spareHistograms:
	default:
		w.current.latency = hist.New()
	}
}

// countKinds completes the current second by its statuses and kinds of errors.
func (w *worker) countKinds() {
	c := &w.current
	for code, n := range &w.tally.statuses {
		if n > c.statuses[code] {
			if c.second.Statuses == nil {
				c.second.Statuses = make(map[int]uint64)
			}
			c.second.Statuses[code] = n - c.statuses[code]
			c.statuses[code] = n
		}
	}
	c.second.Kinds = w.tally.Errors.since(&c.errors)
	c.errors = w.tally.Errors
}

const windowLength = 100 * time.Millisecond // length of each of a Result's Windows

type window struct {
	ends   int64
	before uint64 // requests counted before it
}

func (w *worker) rollWindow() {
	for w.tally.counting && !w.run.isSession() && w.now >= w.window.ends {
		w.tally.windows = append(w.tally.windows, uint32(w.tally.Requests-w.window.before))
		w.window.before = w.tally.Requests
		w.window.ends += int64(windowLength)
	}
}
