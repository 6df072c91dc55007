package load

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/load/hist"
)

// phase is what the workers are doing. It only grows.
type phase int32

const (
	connecting phase = iota
	warming
	measuring
	stopping // counts are final, connections still open
	stopped
)

// run is a job under way: what its workers and its conductor share.
type run struct {
	*job
	phase   atomic.Int32
	pending atomic.Int64 // connections neither made nor given up for the first time
	workers []*worker
}

// glanceEvery is how often Trace.Progress is called.
const glanceEvery = 100 * time.Millisecond

// Run carries out the plan. When ctx ends early, the result of what was measured
// until then is returned with ctx's error.
func Run(ctx context.Context, p Plan) (*Result, error) {
	j, err := p.prepare(ctx)
	if err != nil {
		return nil, err
	}
	r := &run{job: j}
	r.pending.Store(int64(j.Connections * j.stride()))
	left := j.Connections
	for i := range j.Threads {
		share := left / (j.Threads - i)
		left -= share
		w, err := newWorker(r, i, share*j.stride())
		if err != nil {
			r.closeWorkers()
			return nil, err
		}
		r.workers = append(r.workers, w)
	}
	var running sync.WaitGroup
	for _, w := range r.workers {
		running.Go(w.loop)
	}
	took, err := r.conduct(ctx)
	r.phase.Store(int32(stopped))
	running.Wait()
	return r.result(took), err
}

// conduct moves the run from phase to phase and returns how long it measured.
func (r *run) conduct(ctx context.Context) (took time.Duration, err error) {
	tick := time.NewTicker(glanceEvery / 10)
	for r.pending.Load() > 0 && err == nil { // each worker bounds its connects by Timeout
		select {
		case <-tick.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	tick.Stop()
	if err != nil {
		return 0, err
	}
	call(r.Trace.Connected)
	r.phase.Store(int32(warming))
	if _, err = r.watch(ctx, r.Warmup, false); err != nil {
		return 0, err
	}
	call(r.Trace.Started)
	r.phase.Store(int32(measuring))
	took, err = r.watch(ctx, r.Duration, true)
	r.phase.Store(int32(stopping))
	call(r.Trace.Ended)
	return took, err
}

func call(hook func()) {
	if hook != nil {
		hook()
	}
}

// watch lets d pass, telling of the progress, and returns how long it took.
func (r *run) watch(ctx context.Context, d time.Duration, measuring bool) (time.Duration, error) {
	start := time.Now()
	end := time.NewTimer(d)
	defer end.Stop()
	glance := time.NewTicker(glanceEvery)
	defer glance.Stop()
	for {
		select {
		case <-end.C:
			return time.Since(start), nil
		case <-ctx.Done():
			return time.Since(start), ctx.Err()
		case <-glance.C:
		}
		if r.Trace.Progress == nil {
			continue
		}
		p := Progress{Measuring: measuring, Elapsed: time.Since(start)}
		for _, w := range r.workers {
			p.Requests += w.glanceRequests.Load()
			p.Errors += w.glanceErrors.Load()
		}
		r.Trace.Progress(p)
	}
}

func (r *run) result(took time.Duration) *Result {
	res := &Result{
		URL: r.URL, Connections: r.Connections, Threads: r.Threads, Seconds: took.Seconds(),
		Statuses: make(map[int]uint64), Latency: hist.New(), Service: hist.New(), FirstByte: hist.New(),
	}
	for _, w := range r.workers {
		res.add(&w.tally)
		if w.pacer != nil {
			res.Generator.Lag = cmp.Or(res.Generator.Lag, hist.New())
			res.Generator.Lag.Merge(w.pacer.lag)
		}
	}
	if !r.Pace.open() {
		res.Latency.Merge(res.Service)
	}
	res.foldTail()
	return res
}

func (r *run) closeWorkers() {
	for _, w := range r.workers {
		w.close()
	}
}
