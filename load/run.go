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
	phase    atomic.Int32
	pending  atomic.Int64 // connections neither made nor given up for the first time
	reached  atomic.Bool  // a connection was made
	refused  atomic.Int64 // attempts to connect that failed since one was made
	sampled  atomic.Int64
	budget   *budget // of requests
	patience *budget // for errors
	workers  []*worker

	rested  chan Slice           // from the workers of a Session, when they rest; nil of others
	drains  atomic.Int64         // how often requests were to end
	running sync.WaitGroup       // workers
	parts   chan part            // from them
	spare   chan *hist.Histogram // for them
	seconds *seconds
}

const (
	// glanceEvery is how often Trace.Progress is called.
	glanceEvery = 100 * time.Millisecond
	// refusals is how often in a row each connection may be refused before a run of a number of
	// requests ends: nobody is there any more.
	refusals = 20
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
	if err := r.employ(); err != nil {
		return nil, err
	}
	if j.atOnce() {
		call(j.Trace.Started)
		r.phase.Store(int32(measuring))
	}
	r.begin()
	took, err := r.conduct(ctx)
	r.end()
	return r.result(took), r.unreached(err)
}

// employ makes the workers.
func (r *run) employ() error {
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
func (r *run) begin() {
	for _, w := range r.workers {
		r.running.Go(w.loop)
	}
}

// end ends the workers, and takes in what is left of what they measured.
func (r *run) end() {
	if r.isSession() {
		r.enter(stopped)
	} else {
		r.phase.Store(int32(stopped))
	}
	go func() {
		r.running.Wait()
		r.closeBells() // they were rung until now
		close(r.parts)
	}()
	for p := range r.parts {
		r.takeIn(&p)
	}
}

func newRun(j *job) *run {
	r := &run{
		job: j, budget: newBudget(j.Requests), patience: newBudget(j.MaxErrors), seconds: newSeconds(j.Threads, j.Trace.Second),
		parts: make(chan part, 2*j.Threads), spare: make(chan *hist.Histogram, 2*j.Threads),
	}
	r.pending.Store(int64(j.Connections * j.stride()))
	return r
}

// unreached makes an error of a run that made no connection.
func (r *run) unreached(err error) error {
	if err != nil || r.reached.Load() {
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
func (r *run) conduct(ctx context.Context) (took time.Duration, err error) {
	if !r.atOnce() {
		if err := r.connectAll(ctx); err != nil || !r.reached.Load() {
			return 0, err
		}
		call(r.Trace.Connected)
		r.phase.Store(int32(warming))
		if _, err = r.watch(ctx, r.Warmup, false); err != nil {
			return 0, err
		}
		call(r.Trace.Started)
		r.phase.Store(int32(measuring))
	}
	took, err = r.watch(ctx, r.Duration, true)
	r.phase.Store(int32(stopping))
	call(r.Trace.Ended)
	return took, err
}

// connectAll waits until all connections were made, or could not be.
func (r *run) connectAll(ctx context.Context) error {
	tick := time.NewTicker(glanceEvery / 10)
	defer tick.Stop()
	for r.pending.Load() > 0 { // each worker bounds its connects by Timeout
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
func (r *run) watch(ctx context.Context, d time.Duration, isMeasuring bool) (time.Duration, error) {
	start := time.Now()
	var end <-chan time.Time
	if d > 0 || !isMeasuring {
		timer := time.NewTimer(d)
		defer timer.Stop()
		end = timer.C
	}
	var glance <-chan time.Time
	if r.Trace.Progress != nil || r.limited() { // waking up for nothing could delay a worker
		ticker := time.NewTicker(glanceEvery)
		defer ticker.Stop()
		glance = ticker.C
	}
	for {
		select {
		case <-end:
			return time.Since(start), nil
		case <-r.budget.spent:
			return time.Since(start), nil
		case <-r.patience.spent:
			return time.Since(start), nil
		case <-ctx.Done():
			return time.Since(start), ctx.Err()
		case p := <-r.parts:
			r.takeIn(&p)
		case <-glance:
			if r.isLost() {
				return time.Since(start), nil
			}
			r.tell(isMeasuring, time.Since(start))
		}
	}
}

// isLost reports whether a plan's number of requests will not be reached, because nobody takes
// connections.
func (r *run) isLost() bool {
	if !r.limited() {
		return false
	}
	return r.pending.Load() == 0 && !r.reached.Load() || r.refused.Load() > refusals*int64(r.Connections)
}

// tell tells how the run goes.
func (r *run) tell(isMeasuring bool, elapsed time.Duration) {
	if r.Trace.Progress == nil {
		return
	}
	p := Progress{Measuring: isMeasuring, Elapsed: elapsed}
	for _, w := range r.workers {
		p.Requests += w.glanceRequests.Load()
		if e := w.glanceErrors.Load(); e != nil {
			p.Errors.merge(*e)
		}
	}
	r.Trace.Progress(p)
}

// takeIn takes in a worker's part of a second, or of a slice, and returns its histogram.
func (r *run) takeIn(p *part) {
	if r.isSession() {
		r.seconds.total.Merge(p.latency)
	} else {
		r.seconds.add(p)
	}
	p.latency.Reset()
	select {
	case r.spare <- p.latency:
	default:
	}
}

func (r *run) closeWorkers() {
	for _, w := range r.workers {
		w.close()
	}
	r.closeBells()
}
