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
	// restFor is for how long the worker of a Session waits at a time while that rests.
	restFor = time.Hour
)

// worker is one thread with its share of the connections. Only its own goroutine
// touches what it has, the glances excepted.
type worker struct {
	*run
	index  int
	before int // connections of the workers before
	poller *poll.Poller
	timer  *timer
	bell   *bell // of a Session
	conns  []conn
	tally  tally

	messages []message
	turn     int // of the messages, in order
	values   values

	clock      time.Time // what nanosecond counts are relative to
	now        int64     // when the last piece of input was looked at
	began      int64     // of measuring
	present    interval  // second of it
	tenth      window    // of that second
	unopened   int       // conns[unopened:] were never opened
	connecting int       // connections that may be in the server's backlog
	route      route
	seen       phase   // when the loop last looked
	loaded     bool    // requests may begin
	spent      cpuTime // of the thread, when counting began
	nextSweep  int64
	resting    bool   // no request begins, between two slices
	quiet      bool   // none is under way, either
	reopened   int    // conns[reopened:] were not looked at since the slice began
	drained    int64  // of the run's drains, the last that the conductor was told of
	told       Slice  // what the conductor knows
	pacer      *pacer // nil in a closed loop
	thinking   thinkers

	buffer   []byte // what all of its connections read into
	rendered []byte // a request, before a multiplexer has it

	glanceRequests atomic.Uint64
	glanceErrors   atomic.Pointer[Errors] // nil as long as there are none
	errorsSeen     uint64                 // in the last one
}

// newWorker makes worker index, for some busy connections after those of the workers before.
func newWorker(r *run, index, before, conns int) (*worker, error) {
	p, err := poll.New()
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	w := &worker{
		run: r, index: index, before: before, poller: p, conns: make([]conn, conns*r.stride()), clock: time.Now(), tally: newTally(),
		buffer: make([]byte, readSize), present: interval{latency: hist.New()},
		reopened: conns * r.stride(), route: newRoute(r.Sources, &r.address, index, r.Threads), values: values{int64(index), int64(r.Threads)},
	}
	w.prepare()
	if w.timer, err = newTimer(p); err != nil {
		w.close()
		return nil, fmt.Errorf("load: %w", err)
	}
	if err := w.newBell(); err != nil {
		w.close()
		return nil, err
	}
	if r.Pace.open() {
		share := float64(conns) / float64(r.Connections)
		w.pacer = newPacer(w.timer, newSchedule(&r.Pace, share, index, r.Threads))
	}
	return w, nil
}

// prepare makes what the worker's connections need.
func (w *worker) prepare() {
	for i, a := range w.requests {
		var f *fill
		if len(a.expressions) > 0 {
			f = newFill(a.request, a.expressions)
		}
		w.messages = append(w.messages, newMessage(w.job, a.request, i, f))
	}
	w.turn = w.index * len(w.messages) / w.Threads
	flights := make([]flight, len(w.conns)*w.Pipeline)
	for i, reader := range w.protocol.readers(len(w.conns), shared{&w.tally, &w.expected, w.Pipeline}) {
		c := conn{fd: -1, answer: answer{slot: -1}}
		c.fresh, c.reader, c.flights = true, reader, flights[:w.Pipeline:w.Pipeline]
		c.mux, _ = reader.(multiplexer)
		c.check = w.expected.newCheck()
		w.conns[i], flights = c, flights[w.Pipeline:]
	}
}

func (w *worker) nanos() int64 { return int64(time.Since(w.clock)) }

// loop is the worker's goroutine.
func (w *worker) loop() {
	defer w.bind()()
	defer w.close() // on the same thread: handshakes are its coroutines
	for {
		w.seen = phase(w.phase.Load())
		switch {
		case w.seen == measuring && !w.tally.counting:
			w.beginCounting()
		case w.seen > draining && w.tally.counting:
			w.endCounting()
		}
		if w.seen == stopped {
			return
		}
		wait := sweepEvery
		if w.isSession() && w.rests() {
			wait = restFor
		}
		w.begin()
		w.open()
		w.pace()
		w.wakeUp()
		events, err := w.poller.Wait(wait)
		if err != nil {
			panic("load: BUG: cannot wait: " + err.Error())
		}
		w.now = w.nanos()
		w.turnWindow()
		w.turnSecond()
		for i := range events {
			if events[i].ID >= 0 {
				w.serve(&events[i])
			}
		}
		if w.now >= w.nextSweep && !w.quiet {
			w.sweep()
		}
		w.glanceRequests.Store(w.tally.requests)
		if n := w.tally.errors.Total(); n != w.errorsSeen {
			seen := w.tally.errors
			w.glanceErrors.Store(&seen)
			w.errorsSeen = n
		}
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
	w.present.latency.Reset()
	w.tenth = window{ends: w.began + int64(WindowLength)}
	w.spent = threadTime()
}

// endCounting notes what the thread cost, and how long what is still to be answered has waited.
func (w *worker) endCounting() {
	if !w.tally.counting {
		return
	}
	spent := threadTime()
	w.tally.user += spent.user - w.spent.user
	w.tally.sys += spent.sys - w.spent.sys
	w.now = w.nanos()
	for id := range w.conns {
		for i := range w.conns[id].flights {
			if f := &w.conns[id].flights[i]; f.busy {
				w.waits(f.due)
			}
		}
	}
	w.endPacing()
	if !w.isSession() {
		w.tally.windows = append(w.tally.windows, uint32(w.tally.requests-w.tenth.before))
	}
	w.handOver()
	w.tally.counting = false
}

// waits notes since when a request waits that is not answered in the measured time.
func (w *worker) waits(since int64) { w.tally.waiting.Record(time.Duration(w.now - since)) }

// endPacing ends the schedule of an open loop, and notes how long what was due, and could not be sent,
// has waited.
func (w *worker) endPacing() {
	p := w.pacer
	if p == nil || p.began == 0 {
		return
	}
	if w.tally.counting {
		w.tally.asked += (p.profile.by(w.now-p.began) - p.profile.by(w.began-p.began)) / p.gap
		free := p.resting.len()
		for since, ok := p.take(w.now); ok; since, ok = p.take(w.now) {
			if free > 0 { // we did not come to it: it was not asked
				free--
				w.tally.asked--
				p.lag.Record(time.Duration(w.now - since))
				continue
			}
			w.waits(since)
		}
	}
	p.began = 0
}

// open begins to open connections that never were, a few at a time.
func (w *worker) open() {
	for w.unopened < len(w.conns) && w.connecting < maxConnecting {
		w.unopened++
		w.connect(w.unopened - 1)
	}
	for w.loaded && w.reopened < w.unopened && w.connecting < maxConnecting {
		if w.reopened++; w.conns[w.reopened-1].state == closed {
			w.connect(w.reopened - 1)
		}
	}
}

// begin begins a closed loop, once all connections have been made. A server that is
// loaded by the first of them may take long to accept the last.
func (w *worker) begin() {
	if w.loaded || w.resting || w.seen < warming {
		return
	}
	w.loaded = true
	if w.pacer != nil {
		return
	}
	w.now = w.nanos()
	for id := range w.conns[:w.unopened] {
		if c := &w.conns[id]; c.state == open && c.flying == 0 {
			w.request(id)
		}
	}
}

// sweep ends what has taken too long, and opens what is closed.
func (w *worker) sweep() {
	w.nextSweep = w.now + int64(sweepEvery)
	for id := range w.conns[:w.unopened] {
		c := &w.conns[id]
		if c.accepting && c.state > shaking && w.now-c.since > int64(acceptTime) {
			w.accepted(c)
		}
		switch {
		case c.state == closed:
			if w.connecting < maxConnecting && !w.resting {
				w.connect(id)
			}
		case c.state < open && w.now-c.since > int64(w.Timeout):
			if !w.reached.Load() {
				w.giveUp()
			}
			w.cannotConnect(id, FailedTimeout, "timeout: "+c.doing())
		case c.state == open && w.isOver(c):
			w.timeOut(id)
		case c.state == queuing:
			w.connect(id)
		}
	}
}

// isOver reports whether a request on the connection has taken too long.
func (w *worker) isOver(c *conn) bool {
	for i := range c.flights {
		if f := &c.flights[i]; f.busy && w.now-f.sent > int64(w.Timeout) {
			return true
		}
	}
	return false
}

// timeOut gives a connection up that takes too long. A request on it has taken at least as long.
func (w *worker) timeOut(id int) {
	c := &w.conns[id]
	for i := range c.flights {
		if f := &c.flights[i]; f.busy && w.tally.counting {
			w.tally.unmet.Record(time.Duration(w.now - f.due))
		}
	}
	w.fail(id, FailedTimeout, "timeout: "+c.doing())
}

// giveUp ends the first attempts of connections that were never opened. It is called
// when nobody answers, so that the conductor need not wait for batch after batch.
func (w *worker) giveUp() {
	for ; w.unopened < len(w.conns); w.unopened++ {
		w.settle(&w.conns[w.unopened])
	}
}

// note counts an error of one kind, if it is measured.
func (w *worker) note(kind Failure, text string) {
	w.noteText(text)
	if w.tally.counting {
		w.countError(kind)
	}
}

func (w *worker) countError(kind Failure) {
	*w.tally.errors.of(kind)++
	w.present.second.Errors++
	if w.MaxErrors > 0 {
		w.patience.done()
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
		if c.tls != nil {
			c.tls.release()
		}
		c.reader.reset() // it may still have something to tell
	}
	if w.timer != nil {
		w.timer.close()
	}
	_ = w.poller.Close()
}
