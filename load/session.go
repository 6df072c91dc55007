package load

import (
	"context"
	"errors"
	"time"
)

// Session runs a Plan in slices of time and keeps its connections open between them. A paused
// Session sends nothing, opens no connections and uses no CPU time, so several Sessions can load
// several servers in turn. Only one goroutine may call its methods at a time.
//
// The run's phases of a Session are:
//
//	connecting → draining → warming or measuring → draining → ... → stopped
//
// In draining, no request begins. Each worker finishes its exchanges, reports its part of the slice
// and pauses. The next slice wakes it.
type Session struct {
	run         *run
	measured    time.Duration // total length of the counted slices
	interrupted bool          // a context ended during a slice
	result      *Result       // set by Close
}

// Slice is what one slice measured. Every request sent in a slice also ends in it, with a response
// or a failure.
type Slice struct {
	Requests uint64        `json:"requests"`  // complete responses
	Errors   uint64        `json:"errors"`    // see Errors.Total
	Due      float64       `json:"due"`       // due requests of an open loop
	Elapsed  time.Duration `json:"elapsedNs"` // from the first request until none was in flight
	Drained  time.Duration `json:"drainedNs"` // part of Elapsed in which no request began
}

var errEnded = errors.New("load: session has ended: Close was called, or a context ended during a slice")

// Open opens the Plan's connections and returns once no request is in flight. In a closed loop each
// connection has carried one request by then, whose response shows that the server accepted the
// connection. The errors are those of Run. A Session ignores Duration and Warmup. It rejects
// Requests, MaxErrors, Samples and Trace with a *PlanError.
func Open(ctx context.Context, p Plan) (*Session, error) {
	if p.Requests > 0 || p.MaxErrors > 0 || p.Samples > 0 || p.Trace != nil {
		return nil, badPlan("a session supports neither Requests, MaxErrors and Samples nor a Trace")
	}
	j, err := p.prepare(ctx)
	if err != nil {
		return nil, err
	}
	r := newRun(j)
	r.drainedSlices = make(chan Slice, j.plan.Threads)
	if err := r.createWorkers(); err != nil {
		return nil, err
	}
	s := &Session{run: r}
	r.startWorkers()
	err = r.connectAll(ctx)
	if err == nil {
		_, err = s.drain(ctx)
	}
	if err != nil || !r.connected.Load() {
		return nil, r.connectError(s.Close(), err)
	}
	return s, nil
}

// Slice loads the server for d and then waits until no request is in flight, at most for the Plan's
// Timeout. If counts is false, the slice is a warm-up and not part of the Result. The schedule of
// an open loop restarts with each slice, and closed connections are reopened. Slice returns an
// error if ctx ends or the Session has ended. After ctx has ended, call only Close.
func (s *Session) Slice(ctx context.Context, d time.Duration, counts bool) (Slice, error) {
	if s.interrupted || s.result != nil {
		return Slice{}, errEnded
	}
	began := time.Now()
	if counts {
		s.run.setPhase(measuring)
	} else {
		s.run.setPhase(warming)
	}
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
		s.interrupted = true
		return Slice{}, ctx.Err()
	}
	ended := time.Now()
	sum, err := s.drain(ctx)
	if err != nil {
		return Slice{}, err
	}
	sum.Elapsed, sum.Drained = time.Since(began), time.Since(ended)
	if counts {
		s.measured += sum.Elapsed
	}
	return sum, nil
}

// drain stops new requests and returns once none is in flight.
func (s *Session) drain(ctx context.Context) (sum Slice, err error) {
	// The phase comes first: a worker that sees the new number reports that it is drained, and must
	// not begin a slice after that.
	s.run.phase.Store(int32(draining))
	seq := s.run.drainSeq.Add(1)
	s.run.wakeAll()
	late := time.NewTimer(drainPatience)
	defer late.Stop()
	// A worker passes what it has counted before it reports that it is drained.
	for left := len(s.run.workers); left > 0 || len(s.run.parts) > 0; {
		select {
		case one := <-s.run.drainedSlices:
			sum.Requests += one.Requests
			sum.Errors += one.Errors
			sum.Due += one.Due
			left--
		case p := <-s.run.parts:
			s.run.merge(&p)
		case <-late.C:
			s.run.lateDrain.Store(seq)
			s.run.wakeAll()
		case <-ctx.Done():
			s.interrupted = true
			return sum, ctx.Err()
		}
	}
	return sum, nil
}

// Close closes all connections and returns the Result of the counted slices. It equals that of a
// Run as long as these slices together, except that it has no Timeline. Further calls return the
// same Result.
func (s *Session) Close() *Result {
	if s.result == nil {
		s.run.stopWorkers()
		s.result = s.run.result(s.measured)
	}
	return s.result
}

func (r *run) isSession() bool { return r.drainedSlices != nil }

func (r *run) setPhase(p phase) {
	r.phase.Store(int32(p))
	r.wakeAll()
}

func (r *run) wakeAll() {
	for _, w := range r.workers {
		w.waker.wake()
	}
}

func (r *run) closeWakers() {
	for _, w := range r.workers {
		w.waker.close()
	}
}

// updatePause pauses or resumes the worker of a Session according to the phase. It reports whether
// the worker is drained: then nothing happens until its waker or the network wakes it.
func (w *worker) updatePause() bool {
	switch p := w.seenPhase; {
	case p == warming || p == measuring:
		if w.paused {
			w.resume()
		}
		return false
	case p == draining && !w.paused:
		w.paused, w.started = true, false
		w.now = w.nanos()
		w.endPacing()
	}
	// A worker that did not run for a whole slice missed its phase. It still has to report for this
	// drain.
	drain := w.run.drainSeq.Load()
	w.drained = w.paused && w.drainSeen == drain
	if w.paused && !w.drained && w.idle() {
		w.drained, w.drainSeen = true, drain
		w.endCounting()
		t, was := &w.tally, w.reported
		w.reported = Slice{Requests: t.Requests, Errors: t.Errors.Total(), Due: t.Due}
		w.run.drainedSlices <- Slice{Requests: t.Requests - was.Requests, Errors: w.reported.Errors - was.Errors,
			Due: t.Due - was.Due}
	}
	if w.paused && w.run.lateDrain.Load() == drain {
		w.closeIdle()
	}
	return w.drained
}

// drainPatience is how long a drain may take before all workers close their idle connections, also
// those that are drained. A server with few processes may wait for the requests of these, and
// meanwhile serve no other.
const drainPatience = time.Second

func (w *worker) closeIdle() {
	for id := range w.conns[:w.nextUnopened] {
		if c := &w.conns[id]; c.state == open && c.inFlight == 0 {
			w.closeConn(id)
		}
	}
}

// resume starts a slice. Closed connections are reopened, a few at a time.
func (w *worker) resume() {
	w.paused, w.drained, w.nextReopen = false, false, 0
	if p := w.pacer; p != nil {
		p.retries = p.retries[:0]
		p.schedule.restart()
	}
}

// idle reports whether no request is in flight and no connection is being opened.
func (w *worker) idle() bool {
	for id := range w.conns[:w.nextUnopened] {
		if c := &w.conns[id]; c.inFlight > 0 || c.state != closed && c.state != open {
			return false
		}
	}
	return true
}

const wakerID = -2 // poller's ID for a worker's waker
