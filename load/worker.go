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
	maxBacklog = 128
	// acceptTime is how long a connection that the kernel has made counts among those,
	// unless the server answers on it before: it may not have been accepted yet.
	backlogTime = 250 * time.Millisecond
	// sweepEvery is how often connections are checked for timeouts, and closed ones
	// are opened again.
	sweepEvery = 50 * time.Millisecond
	// restFor is for how long the worker of a Session waits at a time while that rests.
	pausedWait = time.Hour
)

// worker is one thread with its share of the connections. Only its own goroutine
// touches what it has, the glances excepted.
type worker struct {
	*run
	index     int
	firstConn int // connections of the workers before
	poller    *poll.Poller
	timer     *timer
	waker     *waker // of a Session
	conns     []conn
	tally     tally

	messages  []message
	nextIndex int // of the messages, in order
	values    sequenceValues

	clock        time.Time // what nanosecond counts are relative to
	now          int64     // when the last piece of input was looked at
	began        int64     // of measuring
	current      interval  // second of it
	window       window    // of that second
	nextUnopened int       // conns[unopened:] were never opened
	backlog      int       // connections that may be in the server's backlog
	route        route
	seenPhase    phase   // when the loop last looked
	started      bool    // requests may begin
	cpuAtStart   cpuTime // of the thread, when counting began
	nextSweep    int64
	paused       bool   // no request begins, between two slices
	drained      bool   // none is under way, either
	nextReopen   int    // conns[reopened:] were not looked at since the slice began
	drainSeen    int64  // of the run's drains, the last that the conductor was told of
	reported     Slice  // what the conductor knows
	pacer        *pacer // nil in a closed loop
	thinking     thinkers

	buffer   []byte // what all of its connections read into
	rendered []byte // a request, before a multiplexer has it

	progressRequests   atomic.Uint64
	progressErrors     atomic.Pointer[Errors] // nil as long as there are none
	progressErrorCount uint64                 // in the last one
}

// newWorker makes worker index, for some busy connections after those of the workers before.
func newWorker(r *run, index, before, conns int) (*worker, error) {
	p, err := poll.New()
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	w := &worker{
		run: r, index: index, firstConn: before, poller: p, conns: make([]conn, conns*r.connsPerBusy()), clock: time.Now(), tally: newTally(),
		buffer: make([]byte, readSize), current: interval{latency: hist.New()},
		nextReopen: conns * r.connsPerBusy(), route: newRoute(r.Sources, &r.address, index, r.Threads), values: sequenceValues{int64(index), int64(r.Threads)},
	}
	w.prepareConns()
	if w.timer, err = newTimer(p); err != nil {
		w.close()
		return nil, fmt.Errorf("load: %w", err)
	}
	if err := w.addWaker(); err != nil {
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
func (w *worker) prepareConns() {
	for i, a := range w.requests {
		var f *templateFill
		if len(a.expressions) > 0 {
			f = newFill(a.request, a.expressions)
		}
		w.messages = append(w.messages, newMessage(w.job, a.request, i, f))
	}
	w.nextIndex = w.index * len(w.messages) / w.Threads
	flights := make([]exchange, len(w.conns)*w.Pipeline)
	for i, reader := range w.protocol.newReaders(len(w.conns), readerConfig{&w.tally, &w.expected, w.Pipeline}) {
		c := conn{fd: -1, response: response{slot: -1}}
		c.firstAttempt, c.reader, c.exchanges = true, reader, flights[:w.Pipeline:w.Pipeline]
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
		w.seenPhase = phase(w.phase.Load())
		switch {
		case w.seenPhase == measuring && !w.tally.counting:
			w.beginCounting()
		case w.seenPhase > draining && w.tally.counting:
			w.endCounting()
		}
		if w.seenPhase == stopped {
			return
		}
		wait := sweepEvery
		if w.isSession() && w.updatePause() {
			wait = pausedWait
		}
		w.startClosedLoop()
		w.openConns()
		w.sendScheduled()
		w.resumeThinkers()
		events, err := w.poller.Wait(wait)
		if err != nil {
			panic("load: BUG: cannot wait: " + err.Error())
		}
		w.now = w.nanos()
		w.rollWindow()
		w.rollSecond()
		for i := range events {
			if events[i].ID >= 0 {
				w.handleEvent(&events[i])
			}
		}
		if w.now >= w.nextSweep && !w.drained {
			w.sweep()
		}
		w.progressRequests.Store(w.tally.requests)
		if n := w.tally.errors.Total(); n != w.progressErrorCount {
			seen := w.tally.errors
			w.progressErrors.Store(&seen)
			w.progressErrorCount = n
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
		w.recordFirstError(fmt.Sprintf("cannot bind a thread to processor %d: %v", cpu, err))
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
	w.current.latency.Reset()
	w.window = window{ends: w.began + int64(WindowLength)}
	w.cpuAtStart = threadTime()
}

// endCounting notes what the thread cost, and how long what is still to be answered has waited.
func (w *worker) endCounting() {
	if !w.tally.counting {
		return
	}
	spent := threadTime()
	w.tally.user += spent.user - w.cpuAtStart.user
	w.tally.sys += spent.sys - w.cpuAtStart.sys
	w.now = w.nanos()
	for id := range w.conns {
		for i := range w.conns[id].exchanges {
			if f := &w.conns[id].exchanges[i]; f.active {
				w.recordWaiting(f.due)
			}
		}
	}
	w.endPacing()
	if !w.isSession() {
		w.tally.windows = append(w.tally.windows, uint32(w.tally.requests-w.window.before))
	}
	w.deliverSecond()
	w.tally.counting = false
}

// waits notes since when a request waits that is not answered in the measured time.
func (w *worker) recordWaiting(since int64) { w.tally.waiting.Record(time.Duration(w.now - since)) }

// endPacing ends the schedule of an open loop, and notes how long what was due, and could not be sent,
// has waited.
func (w *worker) endPacing() {
	p := w.pacer
	if p == nil || p.began == 0 {
		return
	}
	if w.tally.counting {
		w.tally.due += (p.profile.dueBy(w.now-p.began) - p.profile.dueBy(w.began-p.began)) / p.gap
		free := p.idle.len()
		for since, ok := p.pop(w.now); ok; since, ok = p.pop(w.now) {
			if free > 0 { // we did not come to it: it was not asked
				free--
				w.tally.due--
				p.lag.Record(time.Duration(w.now - since))
				continue
			}
			w.recordWaiting(since)
		}
	}
	p.began = 0
}

// open begins to open connections that never were, a few at a time.
func (w *worker) openConns() {
	for w.nextUnopened < len(w.conns) && w.backlog < maxBacklog {
		w.nextUnopened++
		w.connect(w.nextUnopened - 1)
	}
	for w.started && w.nextReopen < w.nextUnopened && w.backlog < maxBacklog {
		if w.nextReopen++; w.conns[w.nextReopen-1].state == closed {
			w.connect(w.nextReopen - 1)
		}
	}
}

// begin begins a closed loop, once all connections have been made. A server that is
// loaded by the first of them may take long to accept the last.
func (w *worker) startClosedLoop() {
	if w.started || w.paused || w.seenPhase < warming {
		return
	}
	w.started = true
	if w.pacer != nil {
		return
	}
	w.now = w.nanos()
	for id := range w.conns[:w.nextUnopened] {
		if c := &w.conns[id]; c.state == open && c.inFlight == 0 {
			w.sendDue(id)
		}
	}
}

// sweep ends what has taken too long, and opens what is closed.
func (w *worker) sweep() {
	w.nextSweep = w.now + int64(sweepEvery)
	for id := range w.conns[:w.nextUnopened] {
		c := &w.conns[id]
		if c.inBacklog && c.state > handshaking && w.now-c.connectStart > int64(backlogTime) {
			w.leaveBacklog(c)
		}
		switch {
		case c.state == closed:
			if w.backlog < maxBacklog && !w.paused {
				w.connect(id)
			}
		case c.state < open && w.now-c.connectStart > int64(w.Timeout):
			if !w.connected.Load() {
				w.abandonUnopened()
			}
			w.cannotConnect(id, FailedTimeout, "timeout: "+c.activity())
		case c.state == open && w.isTimedOut(c):
			w.timeOut(id)
		case c.state == awaitingBacklog:
			w.connect(id)
		}
	}
}

// isOver reports whether a request on the connection has taken too long.
func (w *worker) isTimedOut(c *conn) bool {
	for i := range c.exchanges {
		if f := &c.exchanges[i]; f.active && w.now-f.sent > int64(w.Timeout) {
			return true
		}
	}
	return false
}

// timeOut gives a connection up that takes too long. A request on it has taken at least as long.
func (w *worker) timeOut(id int) {
	c := &w.conns[id]
	for i := range c.exchanges {
		if f := &c.exchanges[i]; f.active && w.tally.counting {
			w.tally.timedOut.Record(time.Duration(w.now - f.due))
		}
	}
	w.failConn(id, FailedTimeout, "timeout: "+c.activity())
}

// giveUp ends the first attempts of connections that were never opened. It is called
// when nobody answers, so that the conductor need not wait for batch after batch.
func (w *worker) abandonUnopened() {
	for ; w.nextUnopened < len(w.conns); w.nextUnopened++ {
		w.endFirstAttempt(&w.conns[w.nextUnopened])
	}
}

// note counts an error of one kind, if it is measured.
func (w *worker) recordError(kind Failure, text string) {
	w.recordFirstError(text)
	if w.tally.counting {
		w.countError(kind)
	}
}

func (w *worker) countError(kind Failure) {
	*w.tally.errors.of(kind)++
	w.current.second.Errors++
	if w.MaxErrors > 0 {
		w.errorBudget.finish()
	}
}

func (w *worker) recordFirstError(text string) {
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
