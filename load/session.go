package load

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Session carries out a plan in slices of time, on connections that stay open between them. While
// it rests it sends nothing, opens no connection and uses no CPU time, so that several sessions can
// load several servers in turn. Its methods are for one goroutine at a time.
type Session struct {
	run         *run
	measured    time.Duration // of the slices that count
	drainTime   time.Duration // of that, after the last request could begin
	interrupted bool          // a slice was interrupted
	result      *Result       // once it is closed
}

// Slice is what one slice showed. Each request that was sent in it was answered in it, or has failed.
type Slice struct {
	Requests uint64        // that were answered
	Errors   uint64        // see Errors.Total
	Asked    float64       // requests of an open loop that were due
	Took     time.Duration // from the first request until none was under way
	Drained  time.Duration // of that, the time in which no request began
}

// errEnded is why a session carries out no more slices.
var errEnded = errors.New("load: the session has ended: a slice was interrupted, or Close was called")

// Open makes the plan's connections. It returns when no request is under way on them: in a closed loop
// each has carried one by then, whose response shows that the server has accepted the connection. The
// errors are Run's. Of a plan without Duration, Warmup, Requests, MaxErrors, Samples and Trace: a
// Session has no use for those, and the last four make it a *PlanError.
func Open(ctx context.Context, p Plan) (*Session, error) {
	if p.Requests > 0 || p.MaxErrors > 0 || p.Samples > 0 || p.Trace != nil {
		return nil, badPlan("a session has neither a number of requests or errors, nor samples, nor a trace")
	}
	j, err := p.prepare(ctx)
	if err != nil {
		return nil, err
	}
	r := newRun(j)
	r.drainedSlices = make(chan Slice, j.Threads)
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
		s.Close()
		return nil, r.connectError(err)
	}
	return s, nil
}

// Slice loads the server for d, and then waits until no request is under way, for which the plan's
// Timeout is the bound. If it does not count, it is a warm-up and no part of the Result. A schedule
// of due requests begins anew with each slice. Connections that were closed meanwhile are opened again
// within the slice. The error is ctx's, or says that the session has ended; after ctx's only Close is
// left to call.
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
	sum.Took, sum.Drained = time.Since(began), time.Since(ended)
	if counts {
		s.measured += sum.Took
		s.drainTime += sum.Drained
	}
	return sum, nil
}

// drain has no more requests begin, and returns when none is under way.
func (s *Session) drain(ctx context.Context) (sum Slice, err error) {
	s.run.drainSeq.Add(1)
	s.run.setPhase(draining)
	for range s.run.workers {
		select {
		case one := <-s.run.drainedSlices:
			sum.Requests += one.Requests
			sum.Errors += one.Errors
			sum.Asked += one.Asked
		case <-ctx.Done():
			s.interrupted = true
			return sum, ctx.Err()
		}
		s.mergeParts()
	}
	return sum, nil
}

// takeIn takes in what workers have handed over until now.
func (s *Session) mergeParts() {
	for {
		select {
		case p := <-s.run.parts:
			s.run.merge(&p)
		default:
			return
		}
	}
}

// Close closes all connections, and returns the Result of all slices that count: that of a Run that
// took as long as they did together, but for its Timeline, of which there is none. To call it again
// returns the same.
func (s *Session) Close() *Result {
	if s.result == nil {
		s.run.stopWorkers()
		s.result = s.run.result(s.measured)
		s.result.Drained = s.drainTime.Seconds()
	}
	return s.result
}

// isSession reports whether the run is a Session's.
func (r *run) isSession() bool { return r.drainedSlices != nil }

// enter has all workers go on to a phase at once.
func (r *run) setPhase(p phase) {
	r.phase.Store(int32(p))
	for _, w := range r.workers {
		w.waker.wake()
	}
}

func (r *run) closeWakers() {
	for _, w := range r.workers {
		if w.waker != nil {
			w.waker.close()
		}
	}
}

// rests takes the worker of a Session from its rest into a slice, and from there to rest. It reports
// whether it rests: then nothing is to be done until the bell rings, or something arrives.
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
	// A worker that had no processor for the whole of a slice has not seen it, and says so.
	drain := w.drainSeq.Load()
	w.drained = w.paused && w.drainSeen == drain
	if w.paused && !w.drained && w.idle() {
		w.drained, w.drainSeen = true, drain
		w.endCounting()
		t, was := &w.tally, w.reported
		w.reported = Slice{Requests: t.requests, Errors: t.errors.Total(), Asked: t.due}
		w.drainedSlices <- Slice{Requests: t.requests - was.Requests, Errors: w.reported.Errors - was.Errors, Asked: t.due - was.Asked}
	}
	return w.drained
}

// resume begins a slice: connections that were closed are opened again, a few at a time.
func (w *worker) resume() {
	w.paused, w.drained, w.nextReopen = false, false, 0
	if p := w.pacer; p != nil {
		p.retries = p.retries[:0]
		p.restart()
	}
}

// idle reports whether no request is under way, and no connection is being made.
func (w *worker) idle() bool {
	for id := range w.conns[:w.nextUnopened] {
		if c := &w.conns[id]; c.inFlight > 0 || c.state != closed && c.state != open {
			return false
		}
	}
	return true
}

// bellID is what the poller reports a worker's bell under.
const wakerID = -2

// newBell makes the bell that wakes the worker of a Session.
func (w *worker) addWaker() (err error) {
	if w.isSession() {
		if w.waker, err = newWaker(w.poller); err != nil {
			return fmt.Errorf("load: %w", err)
		}
	}
	return nil
}
