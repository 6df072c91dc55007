package load

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/load/hist"
)

const (
	// readSize is the buffer that all of a worker's connections read into.
	readSize = 64 << 10
	// maxConnecting is how many connections a worker opens at once. More could
	// overflow the server's backlog, and each that does waits for a second.
	maxConnecting = 128
	// acceptTime is how long a connection that the kernel has made counts among those,
	// unless the server answers on it before: it may not have been accepted yet.
	acceptTime = 250 * time.Millisecond
	// sweepEvery is how often connections are checked for timeouts, and closed ones
	// are opened again.
	sweepEvery = 50 * time.Millisecond
)

// worker is one thread with its share of the connections. Only its own goroutine
// touches what it has, the glances excepted.
type worker struct {
	*run
	index  int
	poller *poll.Poller
	conns  []conn
	tally  tally

	clock      time.Time // what nanosecond counts are relative to
	now        int64     // when the last piece of input was looked at
	began      int64     // of measuring
	second     *Second   // of the timeline, now
	unopened   int       // conns[unopened:] were never opened
	connecting int       // connections that may be in the server's backlog
	loaded     bool      // a closed loop has begun
	nextSweep  int64
	pacer      *pacer // nil in a closed loop

	buffer []byte

	glanceRequests, glanceErrors atomic.Uint64
}

func newWorker(r *run, index, conns int) (*worker, error) {
	p, err := poll.New()
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	w := &worker{
		run: r, index: index, poller: p, conns: make([]conn, conns), clock: time.Now(),
		buffer: make([]byte, readSize),
	}
	w.tally.latency, w.tally.service, w.tally.firstByte = hist.New(), hist.New(), hist.New()
	for i, reader := range r.protocol.readers(conns, r.Method == "HEAD", &w.tally) {
		w.conns[i] = conn{fd: -1, fresh: true, reader: reader}
	}
	if r.Pace.open() {
		share := float64(conns/r.stride()) / float64(r.Connections)
		if w.pacer, err = newPacer(p, newSchedule(&r.Pace, share, index, r.Threads)); err != nil {
			w.close()
			return nil, fmt.Errorf("load: %w", err)
		}
	}
	return w, nil
}

func (w *worker) nanos() int64 { return int64(time.Since(w.clock)) }

// loop is the worker's goroutine.
func (w *worker) loop() {
	defer w.close()
	defer w.bind()()
	var cpu cpuTime
	for {
		switch p := phase(w.phase.Load()); {
		case p == measuring && !w.tally.counting:
			cpu = threadTime()
			w.beginCounting()
		case p > measuring && w.tally.counting:
			spent := threadTime()
			w.tally.user, w.tally.sys = spent.user-cpu.user, spent.sys-cpu.sys
			w.endCounting()
		}
		if phase(w.phase.Load()) == stopped {
			return
		}
		w.open()
		w.begin()
		w.pace()
		events, err := w.poller.Wait(sweepEvery)
		if err != nil {
			panic("load: BUG: cannot wait: " + err.Error())
		}
		w.now = w.nanos()
		w.turnSecond()
		for i := range events {
			if events[i].ID != timerID {
				w.serve(&events[i])
			}
		}
		if w.now >= w.nextSweep {
			w.sweep()
		}
		w.glanceRequests.Store(w.tally.requests)
		w.glanceErrors.Store(w.tally.errors.Total())
	}
}

// bind keeps the goroutine on its thread, whose processor time is read, and the thread
// on its processor. The function it returns undoes both.
func (w *worker) bind() (release func()) {
	runtime.LockOSThread()
	if len(w.CPUs) == 0 {
		return runtime.UnlockOSThread
	}
	cpu := w.CPUs[w.index%len(w.CPUs)]
	undo, err := bindThread(cpu)
	if err != nil {
		w.noteText(fmt.Sprintf("cannot bind a thread to processor %d: %v", cpu, err))
		return runtime.UnlockOSThread
	}
	return func() {
		// Nothing else may run on a thread that stays bound: left locked, it ends with
		// this goroutine. That alone would not do, for the main thread never ends.
		if undo() == nil {
			runtime.UnlockOSThread()
		}
	}
}

func (w *worker) beginCounting() {
	w.tally.counting = true
	w.began = w.nanos()
	w.now = w.began
	w.turnSecond()
}

// endCounting counts what is still to be answered. Whatever has waited for longer than nearly
// all took that were answered is as much a part of the distribution as they are: a server that
// stops to answer would look quick otherwise.
func (w *worker) endCounting() {
	const usualShare = 0.99
	w.now = w.nanos()
	usual := int64(w.tally.service.Quantile(usualShare))
	unanswered := func(since int64) {
		if waited := w.now - since; waited > usual {
			w.tally.unanswered++
			w.tally.latency.Record(time.Duration(waited))
		}
	}
	for id := range w.conns {
		if c := &w.conns[id]; c.state >= sending {
			unanswered(c.due)
		}
	}
	if p := w.pacer; p != nil && p.began > 0 {
		w.tally.asked = (p.profile.by(w.now-p.began) - p.profile.by(w.began-p.began)) / p.gap
		for since, ok := p.take(w.now); ok; since, ok = p.take(w.now) {
			unanswered(since)
		}
	}
	w.tally.counting = false
}

// turnSecond points second at the current second of the timeline.
func (w *worker) turnSecond() {
	if !w.tally.counting {
		return
	}
	n := int((w.now - w.began) / int64(time.Second))
	for len(w.tally.timeline) <= n {
		w.tally.timeline = append(w.tally.timeline, Second{})
	}
	w.second = &w.tally.timeline[n]
}

// open begins to open connections that never were, a few at a time.
func (w *worker) open() {
	for w.unopened < len(w.conns) && w.connecting < maxConnecting {
		w.unopened++
		w.connect(w.unopened - 1)
	}
}

// begin begins a closed loop, once all connections have been made. A server that is
// loaded by the first of them may take long to accept the last.
func (w *worker) begin() {
	if w.loaded || w.pacer != nil || phase(w.phase.Load()) < warming {
		return
	}
	w.loaded = true
	w.now = w.nanos()
	for id := range w.conns[:w.unopened] {
		if w.conns[id].state == resting {
			w.request(id)
		}
	}
}

// sweep ends what has taken too long, and opens what is closed.
func (w *worker) sweep() {
	w.nextSweep = w.now + int64(sweepEvery)
	for id := range w.conns[:w.unopened] {
		c := &w.conns[id]
		if c.accepting && c.state > opening && w.now-c.since > int64(acceptTime) {
			w.accepted(c)
		}
		switch {
		case c.state == closed:
			if w.connecting < maxConnecting {
				w.connect(id)
			}
		case c.state != resting && w.now-c.since > int64(w.Timeout):
			if c.state <= opening && w.tally.opened == 0 {
				w.giveUp()
			}
			w.timeOut(id)
		case c.state == queuing:
			w.connect(id)
		}
	}
}

// timeOut gives a connection up that takes too long. A request on it has taken at least as long.
func (w *worker) timeOut(id int) {
	c := &w.conns[id]
	if c.state >= sending && w.tally.counting {
		w.tally.latency.Record(time.Duration(w.now - c.due))
	}
	w.fail(id, &w.tally.errors.Timeout, "timeout: "+c.doing())
}

// giveUp ends the first attempts of connections that were never opened. It is called
// when nobody answers, so that the conductor need not wait for batch after batch.
func (w *worker) giveUp() {
	for ; w.unopened < len(w.conns); w.unopened++ {
		w.settle(&w.conns[w.unopened])
	}
}

// note counts an error of one kind, if it is measured.
func (w *worker) note(kind *uint64, text string) {
	w.noteText(text)
	if w.tally.counting {
		*kind++
		w.second.Errors++
	}
}

func (w *worker) noteText(text string) {
	if w.tally.errors.First == "" {
		w.tally.errors.First = text
	}
}

// close releases what the worker holds. Connections are reset, so that none of our
// ports is kept in TIME_WAIT.
func (w *worker) close() {
	for i := range w.conns {
		c := &w.conns[i]
		if c.fd >= 0 {
			_ = poll.Reset(c.fd)
			c.fd = -1
		}
		c.reader.reset() // it may still have something to tell
	}
	if w.pacer != nil {
		w.pacer.timer.close()
	}
	_ = w.poller.Close()
}
