package load

import (
	"time"

	"github.com/tarehq/tare/load/hist"
)

// timerID is what the poller reports a pacer's timer under.
const timerID = -1

// pacer has a worker's requests sent when they are due. The one that has been due for longest
// goes to the connection that has rested for longest; while all are busy it waits, and the
// time it waits is its own.
type pacer struct {
	*schedule
	timer   *timer
	began   int64     // 0 while connections are being made
	idle    connQueue // connections
	retries []int64   // when requests were due that have to be sent again
	lag     *hist.Histogram
}

func newPacer(t *timer, s *schedule) *pacer {
	return &pacer{schedule: s, timer: t, lag: hist.New()}
}

// take returns since when the next request is due, and whether it is by now.
func (p *pacer) pop(now int64) (since int64, ok bool) {
	if n := len(p.retries); n > 0 {
		since = p.retries[0]
		p.retries = append(p.retries[:0], p.retries[1:]...)
		return since, true
	}
	if p.began == 0 || p.next() > now {
		return 0, false
	}
	since = p.next()
	p.advance()
	return since, true
}

// isDue reports whether a request is due.
func (p *pacer) isDue(now int64) bool {
	return len(p.retries) > 0 || p.began > 0 && p.next() <= now
}

// next returns when the next request of the schedule is due.
func (p *pacer) next() int64 { return p.began + min(p.due, never) }

// never is later than any run lasts, and far from overflowing.
const never = int64(1) << 62

// ids is a queue of connections. Each is in it once at most.
type connQueue struct {
	queue []int
	head  int
}

func (q *connQueue) push(id int) { q.queue = append(q.queue, id) }

func (q *connQueue) len() int { return len(q.queue) - q.head }

func (q *connQueue) pop() (id int, ok bool) {
	if q.head == len(q.queue) {
		return 0, false
	}
	id = q.queue[q.head]
	if q.head++; q.head == len(q.queue) {
		q.queue, q.head = q.queue[:0], 0
	} else if q.head > cap(q.queue)/2 { // what was taken makes room
		q.queue, q.head = q.queue[:copy(q.queue, q.queue[q.head:])], 0
	}
	return id, true
}

// stride is by how much the numbers of two busy connections differ.
func (j *job) connsPerBusy() int { return 1 + j.Spare }

// isBusy reports whether a connection is one of those that send requests.
func (w *worker) isBusy(id int) bool { return id%w.connsPerBusy() == 0 }

// isDue reports whether a connection that has nothing to do is to send a request now, and
// since when that is due. If not, the connection will be asked.
func (w *worker) isDue(id int) (since int64, ok bool) {
	p := w.pacer
	if !w.isBusy(id) {
		return 0, false
	}
	if p == nil {
		return w.now, w.started && w.conns[id].thinkUntil <= w.now && w.mayRequest()
	}
	if p.isDue(w.now) && w.mayRequest() {
		return p.pop(w.now)
	}
	w.queueIdle(id)
	return 0, false
}

// rest has the pacer know a connection that can take a request.
func (w *worker) queueIdle(id int) {
	if c := &w.conns[id]; !c.queuedIdle {
		c.queuedIdle = true
		w.pacer.idle.push(id)
	}
}

// pace sends what is due, and sets the timer for what is next.
func (w *worker) sendScheduled() {
	p := w.pacer
	if p == nil || w.paused || w.seenPhase < warming {
		return
	}
	w.now = w.nanos()
	if p.began == 0 {
		p.began = w.now
	}
	for p.isDue(w.now) {
		id, ok := p.idle.pop()
		if !ok {
			return // whatever becomes free will look
		}
		c := &w.conns[id]
		c.queuedIdle = false
		if c.state != open || !c.hasRoom() {
			continue // it was closed, and will come again
		}
		if !w.mayRequest() {
			return
		}
		since, _ := p.pop(w.now)
		if w.tally.counting {
			p.lag.Record(time.Duration(w.now - since)) // a connection was waiting for it
		}
		w.enqueue(id, since)
		w.flush(id)
		w.now = w.nanos() // the next one is sent that much later
		if c.state == open && c.hasRoom() {
			w.queueIdle(id)
		}
	}
	p.timer.set(time.Duration(p.next() - w.now))
}
