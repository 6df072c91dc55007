package load

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/load/hist"
)

// phase is the stage of a run. A Run's phases only advance:
//
//	connecting → warming → measuring → stopping → stopped
//
// With a number of Requests and no warm-up, it starts in measuring. A Session alternates between
// draining and its slices; see there.
type phase int32

const (
	connecting phase = iota
	warming
	measuring
	draining // no request begins, counting goes on
	stopping // counts are final, connections are still open
	stopped
)

// run is a job in progress: the state shared by its workers and the coordinator.
type run struct {
	job            *job
	plan           *Plan // the job's
	phase          atomic.Int32
	pendingConns   atomic.Int64 // connections whose first attempt is not over
	connected      atomic.Bool  // at least one connection was opened
	failedConnects atomic.Int64 // failed attempts to connect since the last success
	sampleCount    atomic.Int64
	requestBudget  *budget // Plan.Requests
	errorBudget    *budget // Plan.MaxErrors
	workers        []*worker

	drainedSlices   chan Slice           // from a Session's workers when they are drained; nil in a Run
	drainSeq        atomic.Int64         // number of drains so far
	lateDrain       atomic.Int64         // drainSeq of the drain that has lasted for drainPatience
	running         sync.WaitGroup       // the workers' goroutines
	parts           chan unpackedSecond  // from the workers
	spareHistograms chan *hist.Histogram // for the workers, emptied
	timeline        *timeline
}

const (
	progressEvery = 100 * time.Millisecond // interval of Trace.Progress
	// maxFailedConnects is the number of failed attempts per connection, without a success between
	// them, after which a run with a number of Requests ends.
	maxFailedConnects = 20
)

// Run runs the Plan. If ctx ends early, Run returns ctx's error with the Result so far. If no
// connection succeeds, the error is a *ConnectError, also with a Result. An invalid Plan is a
// *PlanError.
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
		call(j.plan.Trace.Started)
		r.setPhase(measuring)
	}
	r.startWorkers()
	elapsed, err := r.runPhases(ctx)
	r.stopWorkers()
	res := r.result(elapsed)
	return res, r.connectError(res, err)
}

func (r *run) createWorkers() error {
	left := r.plan.Connections
	for i := range r.plan.Threads {
		share := left / (r.plan.Threads - i)
		w, err := newWorker(r, i, r.plan.Part.FirstConnection+r.plan.Connections-left, share)
		if err != nil {
			r.closeWorkers()
			return err
		}
		left -= share
		r.workers = append(r.workers, w)
	}
	return nil
}

func (r *run) startWorkers() {
	for _, w := range r.workers {
		r.running.Go(w.loop)
	}
}

func (r *run) stopWorkers() {
	r.setPhase(stopped)
	go func() {
		r.running.Wait()
		r.closeWakers() // until now a worker's waker was in use
		close(r.parts)
	}()
	for p := range r.parts {
		r.merge(&p)
	}
}

func newRun(j *job) *run {
	r := &run{
		job: j, plan: &j.plan, requestBudget: newBudget(j.plan.Requests), errorBudget: newBudget(j.plan.MaxErrors),
		timeline:        newTimeline(j.plan.Threads, j.plan.Trace.Second),
		parts:           make(chan unpackedSecond, 2*j.plan.Threads),
		spareHistograms: make(chan *hist.Histogram, 2*j.plan.Threads),
	}
	r.pendingConns.Store(int64(j.plan.Connections * j.connsPerBusy()))
	return r
}

// connectError returns err, or a *ConnectError if no connection was opened. The Result then has the
// errors from before measuring.
func (r *run) connectError(res *Result, err error) error {
	if r.connected.Load() {
		return err
	}
	if res.Errors.Total() == 0 {
		res.Errors.Connect = uint64(r.failedConnects.Load())
	}
	if err != nil {
		return err
	}
	res.Errors.First = cmp.Or(res.Errors.First, "all were still being opened at the end")
	return &ConnectError{URL: r.plan.URL, First: res.Errors.First}
}

// runPhases moves the run from phase to phase and returns how long it measured.
func (r *run) runPhases(ctx context.Context) (elapsed time.Duration, err error) {
	if !r.job.measuresConnecting() {
		if err := r.connectAll(ctx); err != nil || !r.connected.Load() {
			return 0, err
		}
		call(r.plan.Trace.Connected)
		if r.plan.Warmup > 0 {
			r.setPhase(warming)
			_, err = r.runPhase(ctx, r.plan.Warmup, false)
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return 0, err
		}
		call(r.plan.Trace.Started)
		r.setPhase(measuring)
	}
	elapsed, err = r.runPhase(ctx, r.plan.Duration, true)
	r.setPhase(stopping)
	call(r.plan.Trace.Ended)
	return elapsed, err
}

// connectAll waits until every connection was opened or failed.
func (r *run) connectAll(ctx context.Context) error {
	tick := time.NewTicker(progressEvery / 10)
	defer tick.Stop()
	for r.pendingConns.Load() > 0 { // ends at the latest with the workers' Timeout
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

// runPhase waits until a phase is over, reports progress, and returns the phase's length. The phase
// lasts for d. Measuring ends earlier if the number of requests or errors is reached; with d 0,
// only then.
func (r *run) runPhase(ctx context.Context, d time.Duration, isMeasuring bool) (time.Duration, error) {
	start := time.Now()
	var end <-chan time.Time
	if d > 0 || !isMeasuring {
		timer := time.NewTimer(d)
		defer timer.Stop()
		end = timer.C
	}
	var tick <-chan time.Time
	if r.plan.Trace.Progress != nil || r.job.hasRequestLimit() { // needless wake-ups could delay a worker
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		tick = ticker.C
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
		case <-tick:
			if r.isUnreachable() {
				return time.Since(start), nil
			}
			r.reportProgress(isMeasuring, time.Since(start))
		}
	}
}

// isUnreachable reports whether a run with a number of Requests cannot complete because connecting
// keeps failing.
func (r *run) isUnreachable() bool {
	if !r.job.hasRequestLimit() {
		return false
	}
	return r.pendingConns.Load() == 0 && !r.connected.Load() ||
		r.failedConnects.Load() > maxFailedConnects*int64(r.plan.Connections)
}

func (r *run) reportProgress(isMeasuring bool, elapsed time.Duration) {
	if r.plan.Trace.Progress == nil {
		return
	}
	p := Progress{Measuring: isMeasuring, Elapsed: elapsed}
	for _, w := range r.workers {
		p.Requests += w.progressRequests.Load()
		if e := w.progressErrors.Load(); e != nil {
			p.Errors.merge(*e)
		}
	}
	r.plan.Trace.Progress(p)
}

// merge merges a worker's part of a second or slice and recycles its histogram.
func (r *run) merge(p *unpackedSecond) {
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
