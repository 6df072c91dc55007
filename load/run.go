package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/load/hist"
)

// phase is what the workers are doing. It only grows, but for a Session, which goes on from draining
// to the next slice.
type phase int32

const (
	connecting phase = iota
	warming
	measuring
	draining // no more requests begin, counting goes on
	stopping // counts are final, connections still open
	stopped
)

// run is a job under way: what its workers and its conductor share.
type run struct {
	*job
	phase          atomic.Int32
	pendingConns   atomic.Int64 // connections neither made nor given up for the first time
	connected      atomic.Bool  // a connection was made
	failedConnects atomic.Int64 // attempts to connect that failed since one was made
	sampleCount    atomic.Int64
	requestBudget  *budget // of requests
	errorBudget    *budget // for errors
	workers        []*worker

	drainedSlices   chan Slice           // from the workers of a Session, when they rest; nil of others
	drainSeq        atomic.Int64         // how often requests were to end
	running         sync.WaitGroup       // workers
	parts           chan workerSecond    // from them
	spareHistograms chan *hist.Histogram // for them
	timeline        *timeline
}

const (
	// glanceEvery is how often Trace.Progress is called.
	progressEvery = 100 * time.Millisecond
	// refusals is how often in a row each connection may be refused before a run of a number of
	// requests ends: nobody is there any more.
	maxFailedConnects = 20
)

// Run carries out the plan. When ctx ends early, the result of what was measured
// until then is returned with ctx's error. If no connection can be made the error is a
// *ConnectError, also with a result; if the plan is wrong, a *PlanError.
func Run(ctx context.Context, p Plan) (*Result, error) {
	j, err := p.prepare(ctx)
	if err != nil {
		return nil, err
	}
	r := newRun(j)
	if err := r.createWorkers(); err != nil {
		return nil, err
	}
	if j.measuresConnecting() {
		call(j.Trace.Started)
		r.phase.Store(int32(measuring))
	}
	r.startWorkers()
	took, err := r.runPhases(ctx)
	r.stopWorkers()
	return r.result(took), r.connectError(err)
}

// employ makes the workers.
func (r *run) createWorkers() error {
	left := r.Connections
	for i := range r.Threads {
		share := left / (r.Threads - i)
		w, err := newWorker(r, i, r.Connections-left, share)
		if err != nil {
			r.closeWorkers()
			return err
		}
		left -= share
		r.workers = append(r.workers, w)
	}
	return nil
}

// begin has the workers work.
func (r *run) startWorkers() {
	for _, w := range r.workers {
		r.running.Go(w.loop)
	}
}

// end ends the workers, and takes in what is left of what they measured.
func (r *run) stopWorkers() {
	if r.isSession() {
		r.setPhase(stopped)
	} else {
		r.phase.Store(int32(stopped))
	}
	go func() {
		r.running.Wait()
		r.closeWakers() // they were rung until now
		close(r.parts)
	}()
	for p := range r.parts {
		r.merge(&p)
	}
}

func newRun(j *job) *run {
	r := &run{
		job: j, requestBudget: newBudget(j.Requests), errorBudget: newBudget(j.MaxErrors), timeline: newTimeline(j.Threads, j.Trace.Second),
		parts: make(chan workerSecond, 2*j.Threads), spareHistograms: make(chan *hist.Histogram, 2*j.Threads),
	}
	r.pendingConns.Store(int64(j.Connections * j.connsPerBusy()))
	return r
}

// unreached makes an error of a run that made no connection.
func (r *run) connectError(err error) error {
	if err != nil || r.connected.Load() {
		return err
	}
	failed := &ConnectError{URL: r.URL}
	for _, w := range r.workers {
		if failed.First == "" {
			failed.First = w.tally.errors.First
		}
	}
	return failed
}

// conduct moves the run from phase to phase and returns how long it measured.
func (r *run) runPhases(ctx context.Context) (took time.Duration, err error) {
	if !r.measuresConnecting() {
		if err := r.connectAll(ctx); err != nil || !r.connected.Load() {
			return 0, err
		}
		call(r.Trace.Connected)
		r.phase.Store(int32(warming))
		if _, err = r.runPhase(ctx, r.Warmup, false); err != nil {
			return 0, err
		}
		call(r.Trace.Started)
		r.phase.Store(int32(measuring))
	}
	took, err = r.runPhase(ctx, r.Duration, true)
	r.phase.Store(int32(stopping))
	call(r.Trace.Ended)
	return took, err
}

// connectAll waits until all connections were made, or could not be.
func (r *run) connectAll(ctx context.Context) error {
	tick := time.NewTicker(progressEvery / 10)
	defer tick.Stop()
	for r.pendingConns.Load() > 0 { // each worker bounds its connects by Timeout
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func call(hook func()) {
	if hook != nil {
		hook()
	}
}

// watch lets d pass, telling of the progress, and returns how long it took. Measuring ends
// earlier when all requests of the plan's number have been dealt with; without d, only then.
func (r *run) runPhase(ctx context.Context, d time.Duration, isMeasuring bool) (time.Duration, error) {
	start := time.Now()
	var end <-chan time.Time
	if d > 0 || !isMeasuring {
		timer := time.NewTimer(d)
		defer timer.Stop()
		end = timer.C
	}
	var glance <-chan time.Time
	if r.Trace.Progress != nil || r.hasRequestLimit() { // waking up for nothing could delay a worker
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		glance = ticker.C
	}
	for {
		select {
		case <-end:
			return time.Since(start), nil
		case <-r.requestBudget.exhausted:
			return time.Since(start), nil
		case <-r.errorBudget.exhausted:
			return time.Since(start), nil
		case <-ctx.Done():
			return time.Since(start), ctx.Err()
		case p := <-r.parts:
			r.merge(&p)
		case <-glance:
			if r.isUnreachable() {
				return time.Since(start), nil
			}
			r.reportProgress(isMeasuring, time.Since(start))
		}
	}
}

// isLost reports whether a plan's number of requests will not be reached, because nobody takes
// connections.
func (r *run) isUnreachable() bool {
	if !r.hasRequestLimit() {
		return false
	}
	return r.pendingConns.Load() == 0 && !r.connected.Load() || r.failedConnects.Load() > maxFailedConnects*int64(r.Connections)
}

// tell tells how the run goes.
func (r *run) reportProgress(isMeasuring bool, elapsed time.Duration) {
	if r.Trace.Progress == nil {
		return
	}
	p := Progress{Measuring: isMeasuring, Elapsed: elapsed}
	for _, w := range r.workers {
		p.Requests += w.progressRequests.Load()
		if e := w.progressErrors.Load(); e != nil {
			p.Errors.merge(*e)
		}
	}
	r.Trace.Progress(p)
}

// takeIn takes in a worker's part of a second, or of a slice, and returns its histogram.
func (r *run) merge(p *workerSecond) {
	if r.isSession() {
		r.timeline.total.Merge(p.latency)
	} else {
		r.timeline.add(p)
	}
	p.latency.Reset()
	select {
	case r.spareHistograms <- p.latency:
	default:
	}
}

func (r *run) closeWorkers() {
	for _, w := range r.workers {
		w.close()
	}
	r.closeWakers()
}
