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
	readSize = 64 << 10 // size of the buffer shared by all of a worker's connections
	// maxBacklog is the number of connections that a worker opens concurrently. More could overflow
	// the server's backlog, and each dropped SYN costs a second.
	maxBacklog = 128
	// backlogTime is how long an established connection counts in the backlog unless a response
	// arrives before. The server may not have accepted it yet.
	backlogTime = 250 * time.Millisecond
	// sweepEvery is the interval of sweeps, which check timeouts and reopen closed connections.
	sweepEvery = 50 * time.Millisecond
	pausedWait = time.Hour // poll timeout of a paused Session's worker
)

// worker is a thread with its share of the connections. Only its own goroutine uses its fields,
// except the atomic ones for progress reports.
type worker struct {
	run       *run
	job       *job  // the run's
	plan      *Plan // the run's
	index     int
	firstConn int // number of its first busy connection among those of the whole Plan
	poller    *poll.Poller
	timer     *timer
	waker     *waker
	conns     []conn
	tally     tally

	messages  []message
	nextIndex int // of the message to send next
	values    sequenceValues

	clock        time.Time // zero of all int64 times
	now          int64     // when the last input was read
	began        int64     // when measuring began
	current      interval  // the current second of measuring
	window       window    // the current window of that second
	nextUnopened int       // conns[nextUnopened:] were never opened
	backlog      int       // connections that the server may not have accepted yet
	route        route
	seenPhase    phase   // the run's phase as of this iteration
	started      bool    // requests may be sent
	cpuAtStart   cpuTime // CPU time of the thread when counting began
	nextSweep    int64
	paused       bool      // between two slices: no request may begin
	drained      bool      // paused, and no request is in flight
	nextReopen   int       // conns[nextReopen:] were not checked since the slice began
	failed       connQueue // connections to reopen
	drainSeen    int64     // the run's drainSeq that was last reported
	reported     Slice     // totals reported to the Session so far
	pacer        *pacer    // nil in a closed loop
	thinking     thinkers

	buffer   []byte // shared by reads of all connections
	rendered []byte // reused for requests by HTTP/2

	progressRequests   atomic.Uint64
	progressErrors     atomic.Pointer[Errors] // nil if there are none
	progressErrorCount uint64                 // total of progressErrors
}

// newWorker returns worker index with conns busy connections; before is the number of those of
// earlier workers.
func newWorker(r *run, index, before, conns int) (*worker, error) {
	p, err := poll.New()
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	w := &worker{
		run: r, job: r.job, plan: r.plan, index: index, firstConn: before, poller: p,
		conns: make([]conn, conns*r.job.connsPerBusy()),
		clock: time.Now(), tally: newTally(),
		buffer: make([]byte, readSize), current: interval{latency: hist.New()},
		nextReopen: conns * r.job.connsPerBusy(),
		route:      newRoute(r.plan.Sources, &r.job.address, index, r.plan.Threads),
		values:     sequenceValues{int64(r.plan.Part.FirstThread + index), int64(r.plan.wholeThreads())},
	}
	if r.job.tls != nil {
		w.tally.Handshake = hist.New()
	}
	w.prepareConns()
	if w.timer, err = newTimer(p); err == nil {
		w.waker, err = newWaker(p)
	}
	if err != nil {
		w.close()
		return nil, fmt.Errorf("load: %w", err)
	}
	if r.plan.Pace.open() {
		share := float64(conns) / float64(max(r.plan.Part.Connections, r.plan.Connections))
		s := newSchedule(&r.plan.Pace, share, r.plan.Part.FirstThread+index, r.plan.wholeThreads())
		w.pacer = newPacer(w.timer, s)
		w.tally.Generator.Lag = w.pacer.lag
	}
	return w, nil
}

func (w *worker) prepareConns() {
	for i := range w.job.requests {
		w.messages = append(w.messages, newMessage(w.job, i))
	}
	w.nextIndex = (w.plan.Part.FirstThread + w.index) * len(w.messages) / w.plan.wholeThreads()
	shared := &readerShared{tally: &w.tally, expected: &w.job.expected, maxInFlight: w.plan.Pipeline}
	for i := range w.conns {
		c := conn{fd: -1, response: response{slot: -1}, reusable: reusable{
			firstAttempt: true, reader: w.job.protocol.newReader(shared), exchanges: make([]exchange, w.plan.Pipeline),
			check: w.job.expected.newCheck(),
		}}
		c.reusable.http2, _ = c.reusable.reader.(*http2Reader)
		w.conns[i] = c
	}
}

func (w *worker) nanos() int64 { return int64(time.Since(w.clock)) }

func (w *worker) loop() {
	defer w.bind()()
	defer w.close() // on the same thread: handshakes are coroutines of this goroutine
	for {
		w.seenPhase = phase(w.run.phase.Load())
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
		if w.run.isSession() && w.updatePause() {
			wait = pausedWait
		}
		w.startClosedLoop()
		w.openConns()
		w.sendScheduled()
		w.resumeThinkers()
		events, err := w.poller.Wait(wait)
		if err != nil {
			panic("load: BUG: poll: " + err.Error())
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
		w.progressRequests.Store(w.tally.Requests)
		if n := w.tally.Errors.Total(); n != w.progressErrorCount {
			seen := w.tally.Errors
			w.progressErrors.Store(&seen)
			w.progressErrorCount = n
		}
	}
}

// bind locks the goroutine to its thread, whose CPU time is measured, and binds the thread to its
// CPU. The returned function undoes both.
func (w *worker) bind() (release func()) {
	runtime.LockOSThread()
	if len(w.plan.CPUs) == 0 {
		return runtime.UnlockOSThread
	}
	cpu := w.plan.CPUs[w.index%len(w.plan.CPUs)]
	undo, err := bindThread(cpu)
	if err != nil {
		w.recordFirstError(fmt.Sprintf("cannot bind a thread to CPU %d: %v", cpu, err))
		return runtime.UnlockOSThread
	}
	return func() {
		// If unbinding fails, the goroutine exits while locked, which ends its thread, so no other
		// goroutine runs on a bound thread. Unbinding is still needed because the main thread never
		// ends.
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
	w.window = window{ends: w.began + int64(windowLength)}
	w.cpuAtStart = threadTime()
	switch {
	case w.pacer == nil:
	case w.run.isSession(): // its slices have no Duration
		w.pacer.count(w.began, 0)
	default:
		w.pacer.count(w.began, w.plan.Duration)
	}
}

// endCounting records the thread's CPU time and how long the active exchanges have waited.
func (w *worker) endCounting() {
	if !w.tally.counting {
		return
	}
	spent := threadTime()
	w.tally.Generator.UserSeconds += (spent.user - w.cpuAtStart.user).Seconds()
	w.tally.Generator.SysSeconds += (spent.sys - w.cpuAtStart.sys).Seconds()
	w.now = w.nanos()
	for id := range w.conns {
		for i := range w.conns[id].reusable.exchanges {
			if f := &w.conns[id].reusable.exchanges[i]; f.active {
				w.tally.InFlight++
				w.recordWaiting(f.due)
			}
		}
	}
	w.endPacing()
	if !w.run.isSession() {
		w.tally.windows = append(w.tally.windows, uint32(w.tally.Requests-w.window.before))
	}
	w.deliverSecond()
	w.tally.counting = false
}

// recordWaiting records a request that was due at the given time and has no response at the end.
func (w *worker) recordWaiting(since int64) { w.tally.Waiting.Record(time.Duration(w.now - since)) }

// endPacing ends the schedule of an open loop and records how long due requests that could not be
// sent have waited.
func (w *worker) endPacing() {
	p := w.pacer
	if p == nil || p.began == 0 {
		return
	}
	if w.tally.counting {
		free := p.idle.len()
		for since, ok := p.pop(w.now); ok; since, ok = p.pop(w.now) {
			switch {
			case w.job.hasRequestLimit() && !w.run.requestBudget.acquire(): // due after the last request of the run
				p.uncount(since)
			case free > 0: // a connection was free: the generator was late
				free--
				p.uncount(since)
				p.lag.Record(time.Duration(w.now - since))
			default:
				w.recordWaiting(since)
			}
		}
		w.tally.Due = float64(p.counted)
	}
	p.began, p.countFrom = 0, never
}

// openConns opens connections that were never opened, reopens those that failed and, at the start
// of a Session's slice, all closed ones, a few at a time.
func (w *worker) openConns() {
	for w.nextUnopened < len(w.conns) && w.backlog < maxBacklog {
		w.nextUnopened++
		w.connect(w.nextUnopened - 1)
	}
	for !w.paused && w.backlog < maxBacklog {
		id, ok := w.failed.pop()
		if !ok {
			break
		}
		if w.conns[id].state == closed { // otherwise a sweep has reopened it
			w.connect(id)
		}
	}
	for w.started && w.nextReopen < w.nextUnopened && w.backlog < maxBacklog {
		if w.nextReopen++; w.conns[w.nextReopen-1].state == closed {
			w.connect(w.nextReopen - 1)
		}
	}
}

// startClosedLoop sends the first requests once all connections are open. A server that is loaded
// by the first connections may take long to accept the last.
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

// sweep ends exchanges and connects that have timed out, and reopens closed connections.
func (w *worker) sweep() {
	w.nextSweep = w.now + int64(sweepEvery)
	for id := range w.conns[:w.nextUnopened] {
		c := &w.conns[id]
		if c.reusable.inBacklog && c.state > handshaking && w.now-c.connectStart > int64(backlogTime) {
			w.leaveBacklog(c)
		}
		switch {
		case c.state == closed:
			if w.backlog < maxBacklog && !w.paused {
				w.connect(id)
			}
		case (c.state < open || c.isBlocked()) && w.now-c.connectStart > int64(w.plan.Timeout):
			if !w.run.connected.Load() {
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

func (w *worker) isTimedOut(c *conn) bool {
	for i := range c.reusable.exchanges {
		if f := &c.reusable.exchanges[i]; f.active && w.now-f.sent > int64(w.plan.Timeout) {
			return true
		}
	}
	return false
}

// timeOut closes a connection with a timed-out request. It records how long each of its active
// requests has waited, which is a lower bound of their latency.
func (w *worker) timeOut(id int) {
	c := &w.conns[id]
	for i := range c.reusable.exchanges {
		if f := &c.reusable.exchanges[i]; f.active && w.tally.counting {
			w.tally.Latency.Record(time.Duration(w.now - f.due))
		}
	}
	w.failConn(id, FailedTimeout, "timeout: "+c.activity())
}

// abandonUnopened ends the first attempts of connections that were never opened. It is called when
// the server is unreachable, so that the coordinator does not wait for batch after batch.
func (w *worker) abandonUnopened() {
	for ; w.nextUnopened < len(w.conns); w.nextUnopened++ {
		w.endFirstAttempt(&w.conns[w.nextUnopened])
	}
}

// recordError counts an error, if it is measured, and keeps the first text.
func (w *worker) recordError(kind Failure, text string) {
	w.recordFirstError(text)
	if w.tally.counting {
		w.countError(kind)
	}
}

// countError counts an error. The one after Plan.MaxErrors ends the run instead.
func (w *worker) countError(kind Failure) {
	if w.plan.MaxErrors > 0 {
		if !w.run.errorBudget.acquire() {
			w.run.phase.CompareAndSwap(int32(measuring), int32(stopping))
			w.endCounting()
			return
		}
		w.run.errorBudget.finish()
	}
	*w.tally.Errors.of(kind)++
	*w.current.errors.of(kind)++
}

func (w *worker) recordFirstError(text string) {
	if w.tally.Errors.First == "" {
		w.tally.Errors.First = text
	}
}

// close releases the worker's resources. It resets connections so that none of the local ports
// stays in TIME_WAIT.
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
		c.reusable.reader.reset() // it may hold STDERR output
	}
	if w.timer != nil {
		w.timer.close()
	}
	_ = w.poller.Close()
}
