package load

import (
	"time"

	"github.com/tarehq/tare/internal/poll"
)

// timerID is what the poller reports a pacer's timer under.
const timerID = -1

// pacer says when each request of a worker's open loop is due. Requests are evenly
// spaced, and connections take turns. A connection that is busy when its turn comes
// takes it as soon as it can.
type pacer struct {
	timer *timer
	gap   float64 // nanoseconds between two turns
	began int64   // 0 while connections are being made
	turn  int64   // to come
}

func newPacer(p *poll.Poller, rate float64) (*pacer, error) {
	t, err := newTimer(p)
	if err != nil {
		return nil, err
	}
	return &pacer{timer: t, gap: float64(time.Second) / rate}, nil
}

func (p *pacer) due(turn int64) int64 { return p.began + int64(float64(turn)*p.gap) }

// stride is by how much the numbers of two busy connections differ.
func (j *job) stride() int { return 1 + j.Spare }

// isBusy reports whether a connection is one of those that send requests.
func (w *worker) isBusy(id int) bool { return id%w.stride() == 0 }

// isDue reports whether a connection is to send a request now, and since when.
func (w *worker) isDue(id int) (since int64, ok bool) {
	switch p := w.pacer; {
	case !w.isBusy(id):
		return 0, false
	case p == nil:
		return w.now, w.loaded
	case p.began == 0:
		return 0, false
	default:
		c := &w.conns[id]
		if since = p.due(c.turn); since > w.now {
			return 0, false
		}
		c.turn += w.turns()
		return since, true
	}
}

// turns is how many connections of the worker take turns.
func (w *worker) turns() int64 { return int64(len(w.conns) / w.stride()) }

// giveBack makes a request due again that was not answered.
func (w *worker) giveBack(c *conn) {
	if w.pacer != nil {
		c.turn -= w.turns()
	}
}

// pace sends what is due, and sets the timer for what is next.
func (w *worker) pace() {
	p := w.pacer
	if p == nil || phase(w.phase.Load()) < warming {
		return
	}
	w.now = w.nanos()
	if p.began == 0 {
		p.began = w.now
	}
	for p.due(p.turn) <= w.now {
		id := int(p.turn%w.turns()) * w.stride()
		p.turn++
		if w.conns[id].state == resting {
			w.request(id)
		}
	}
	p.timer.set(time.Duration(p.due(p.turn) - w.now))
}
