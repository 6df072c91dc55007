package load

import (
	"time"

	"github.com/tarehq/tare/load/hist"
)

// interval is what a worker measured in one second.
type interval struct {
	second   Second          // its Errors, Statuses and Kinds are set at the end
	latency  *hist.Histogram // since due; in a closed loop, since sent
	statuses [1000]uint64    // by status code
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

// deliverSecond adds the current second to the tally, and passes it to the coordinator.
func (w *worker) deliverSecond() {
	c := &w.current
	w.tally.Bytes += c.second.Bytes
	for code, n := range &c.statuses {
		if n > 0 {
			if c.second.Statuses == nil {
				c.second.Statuses = make(map[int]uint64)
			}
			c.second.Statuses[code] = n
			w.tally.Statuses[code] += n
		}
	}
	if n := c.errors.Total(); n > 0 {
		kinds := c.errors
		kinds.First = w.tally.Errors.First
		c.second.Errors, c.second.Kinds = n, &kinds
	}
	w.run.parts <- unpackedSecond{c.second, c.latency, 1}
	*c = interval{}
	select {
	case c.latency = <-w.run.spareHistograms:
	default:
		c.latency = hist.New()
	}
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
