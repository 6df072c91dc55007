package load

import (
	"time"

	"github.com/tarehq/tare/load/hist"
)

const timerID = -1 // poller's ID for a pacer's timer

// pacer sends a worker's requests when they are due. The request that has been due longest goes to
// the connection that has been idle longest. While all connections are busy, requests wait, and the
// wait is part of their latency.
type pacer struct {
	schedule *schedule
	timer    *timer
	began    int64     // start of the schedule; 0 while connections are being opened
	idle     connQueue // idle connections
	retries  []int64   // due times of requests to retry
	lag      *hist.Histogram

	countFrom int64  // requests that are due from then on count
	until     int64  // no request is due from then on
	counted   uint64 // requests of the schedule that count
}

func newPacer(t *timer, s *schedule) *pacer {
	return &pacer{schedule: s, timer: t, lag: hist.New(), countFrom: never, until: never}
}

// uncount excludes a request that was due at the given time.
func (p *pacer) uncount(since int64) {
	if since >= p.countFrom {
		p.counted--
	}
}

// count counts the requests that are due from now on, for d; without an end if d is 0.
func (p *pacer) count(now int64, d time.Duration) {
	p.countFrom = now
	if d > 0 {
		p.until = now + int64(d)
	}
}

// pop removes the next due request and returns when it was due. If none is due by now, ok is false.
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
	p.schedule.advance()
	if since >= p.countFrom {
		p.counted++
	}
	return since, true
}

func (p *pacer) isDue(now int64) bool {
	return len(p.retries) > 0 || p.began > 0 && p.next() <= now
}

// next returns when the next request of the schedule is due, or never.
func (p *pacer) next() int64 {
	if due := p.began + min(p.schedule.due, never); due < p.until {
		return due
	}
	return never
}

const never = int64(1) << 62 // later than the end of any run, and far from overflow

// connQueue is a queue of connections. Each is in it at most once.
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
	} else if q.head > cap(q.queue)/2 { // reuse the space of removed entries
		q.queue, q.head = q.queue[:copy(q.queue, q.queue[q.head:])], 0
	}
	return id, true
}

// connsPerBusy is the number of connections for each busy one: itself and its spare ones.
func (j *job) connsPerBusy() int { return 1 + j.plan.Spare }

func (w *worker) isBusy(id int) bool { return id%w.job.connsPerBusy() == 0 }

// isDue reports whether connection id, which has room, may send a request now, and when that was
// due. Otherwise an open loop queues the connection as idle.
func (w *worker) isDue(id int) (since int64, ok bool) {
	p := w.pacer
	if !w.isBusy(id) {
		return 0, false
	}
	if p == nil {
		return w.now, w.started && w.conns[id].reusable.thinkUntil <= w.now && w.mayRequest()
	}
	if p.isDue(w.now) && w.mayRequest() {
		return p.pop(w.now)
	}
	w.queueIdle(id)
	return 0, false
}

func (w *worker) queueIdle(id int) {
	if c := &w.conns[id]; !c.reusable.queuedIdle {
		c.reusable.queuedIdle = true
		w.pacer.idle.push(id)
	}
}

// sendScheduled sends due requests and sets the timer for the next one.
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
			return // the next free connection sends it
		}
		c := &w.conns[id]
		c.reusable.queuedIdle = false
		if c.state != open || !c.hasRoom() {
			continue // it was closed and is queued again once it is open
		}
		if !w.mayRequest() {
			return
		}
		since, _ := p.pop(w.now)
		if w.tally.counting {
			late := time.Duration(w.now - since) // a connection was free: the generator itself was late
			p.lag.Record(late)
			w.current.second.MaxLag = max(w.current.second.MaxLag, late)
		}
		w.enqueue(id, since)
		w.flush(id)
		w.now = w.nanos() // sending took time
		if c.state == open && c.hasRoom() {
			w.queueIdle(id)
		}
	}
	p.timer.set(time.Duration(p.next() - w.now))
}
