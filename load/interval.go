package load

import (
	"time"

	"github.com/tarehq/tare/load/hist"
)

// interval is what a worker measures of one second.
type interval struct {
	index   int
	second  Second
	latency *hist.Histogram // since due; of a closed loop, since sent
}

// turnSecond begins a new second, if it is time.
func (w *worker) turnSecond() {
	if !w.tally.counting {
		return
	}
	if n := int((w.now - w.began) / int64(time.Second)); n > w.interval.index {
		w.handOver()
		w.interval.index = n
	}
}

// handOver gives the conductor what was measured of the present second.
func (w *worker) handOver() {
	w.parts <- part{w.interval.index, w.second, w.interval.latency}
	w.second = Second{}
	select {
	case w.interval.latency = <-w.spare:
	default:
		w.interval.latency = hist.New()
	}
}

// windowLength is over how much time a thread's rate is told.
const windowLength = 100 * time.Millisecond

// window is a tenth of a second.
type window struct {
	ends   int64
	before uint64 // requests, at its beginning
}

// turnWindow begins a new window, if it is time.
func (w *worker) turnWindow() {
	for w.tally.counting && w.now >= w.window.ends {
		w.tally.windows = append(w.tally.windows, uint32(w.tally.requests-w.window.before))
		w.window.before = w.tally.requests
		w.window.ends += int64(windowLength)
	}
}
