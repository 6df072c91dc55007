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
	if !w.tally.counting || w.isSession() {
		return
	}
	if n := int((w.now - w.began) / int64(time.Second)); n > w.present.index {
		w.handOver()
		w.present.index = n
	}
}

// handOver gives the conductor what was measured of the present second.
func (w *worker) handOver() {
	w.parts <- part{w.present.index, w.present.second, w.present.latency}
	w.present.second = Second{}
	select {
	case w.present.latency = <-w.spare:
	default:
		w.present.latency = hist.New()
	}
}

// WindowLength is how much time one of a Result's Windows covers.
const WindowLength = 100 * time.Millisecond

// window is a tenth of a second.
type window struct {
	ends   int64
	before uint64 // requests, at its beginning
}

// turnWindow begins a new window, if it is time.
func (w *worker) turnWindow() {
	for w.tally.counting && !w.isSession() && w.now >= w.tenth.ends {
		w.tally.windows = append(w.tally.windows, uint32(w.tally.requests-w.tenth.before))
		w.tenth.before = w.tally.requests
		w.tenth.ends += int64(WindowLength)
	}
}
