package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/agent"
)

// run is a plan in progress. Its parts pass through these states:
//
//	sent ──ready──▶ ready ──start──▶ started ──result, error or loss──▶ over
//
// The start is sent when no part is in state sent.
type run struct {
	fleet   *Fleet
	plan    load.Plan
	joiner  *load.Joiner
	parts   []*part // in the order of the joiner's
	byLink  map[*link]*part
	senders sync.WaitGroup // goroutines that send the parts' commands

	startAt   time.Duration // on the controller's clock; 0 before the start
	isStopped bool          // the agents were ordered to end
	stoppedAt time.Duration
	failed    error    // a *load.PlanError
	lost      []string // reasons of losses
	began     bool     // Trace.Started was called

	noConnection string // why an agent could open no connection

	sentAt time.Duration // when the plans were queued, on the controller's clock
}

type part struct {
	link       *link
	index      int
	plan       load.Plan
	queue      chan agent.Command // in the order in which they are sent
	state      state
	began      time.Duration // estimated, on the controller's clock; 0 before measuring
	clockError time.Duration // greatest error of began
	behind     time.Duration
	samples    []load.Sample

	noConnection string // why it could open no connection

	// early is the result of an agent that a signal ended. Its link ends, too, which shows why.
	early *load.Result
}

type state uint8

const (
	sent state = iota
	ready
	started
	over
)

const (
	leadTime       = 50 * time.Millisecond  // agents receive the start at least this long before it
	commandsPerRun = 3                      // most for a part: a plan, a start and a stop
	watchEvery     = 200 * time.Millisecond // interval of checks for silent agents
	// resultTimeout is how long after its end a run's result may arrive, besides the timeout of
	// requests.
	resultTimeout = 30 * time.Second
)

// Run runs a plan with all agents. It has the results and errors of load.Run. If agents are lost,
// the Result names them; the error is an *Error if that ended the run. Later runs use the remaining
// agents. Plan.Threads is the number of threads of each agent.
func (f *Fleet) Run(ctx context.Context, p load.Plan) (*load.Result, error) {
	p.Trace = cmp.Or(p.Trace, &load.Trace{})
	if p.TLS != nil && f.options.TLS == nil {
		return nil, &load.PlanError{Reason: "TLS: a configuration for agents belongs to the options of the fleet, not to the plan"}
	}
	r, err := f.newRun(p)
	if err != nil {
		return nil, err
	}
	if err := r.send(); err != nil {
		return nil, err
	}
	r.await(ctx)
	if r.failed != nil {
		return nil, r.failed
	}
	res := r.result()
	switch {
	case ctx.Err() != nil:
		return res, ctx.Err()
	case r.noConnection != "" && res.Requests == 0:
		return res, &load.ConnectError{URL: res.URL, First: r.noConnection}
	case r.lost != nil && (f.options.OnLoss == End || len(f.alive()) == 0):
		return res, &Error{Reasons: r.lost}
	}
	return res, nil
}

func (f *Fleet) newRun(p load.Plan) (*run, error) {
	r := &run{fleet: f, plan: p, byLink: make(map[*link]*part)}
	var threads []int
	var names []string
	for i, l := range f.alive() {
		one := &part{link: l, index: i, queue: make(chan agent.Command, commandsPerRun)}
		r.parts, r.byLink[l], names = append(r.parts, one), one, append(names, l.name)
		own := p.Threads
		if own <= 0 {
			own = l.about.CPUs
		}
		threads = append(threads, own)
	}
	if len(threads) == 0 {
		return nil, &Error{Reasons: []string{"all agents were lost"}}
	}
	plans, err := p.Split(threads)
	if err != nil {
		return nil, err
	}
	r.joiner = load.NewJoiner(plans, names, p.Trace.Second)
	for i, one := range r.parts {
		one.plan = plans[i]
	}
	return r, nil
}

func (r *run) send() error {
	commands := make([]agent.Command, len(r.parts))
	for i, one := range r.parts {
		plan, err := agent.NewPlan(one.plan, r.fleet.options.TLS)
		if err != nil {
			return err
		}
		commands[i] = agent.Command{Plan: plan}
	}
	r.sentAt = r.now()
	for i, one := range r.parts {
		one.queue <- commands[i]
		r.senders.Go(func() {
			for c := range one.queue {
				_ = one.link.send(c) // the reader reports the end of a link
			}
		})
	}
	return nil
}

func (r *run) await(ctx context.Context) {
	watch := time.NewTicker(watchEvery)
	defer watch.Stop()
	interrupted := ctx.Done()
	for slices.ContainsFunc(r.parts, func(p *part) bool { return p.state != over }) {
		select {
		case e := <-r.fleet.events:
			r.handle(e)
		case <-watch.C:
			r.watch()
		case <-interrupted:
			interrupted = nil
			r.stop()
		}
	}
	for _, p := range r.parts {
		close(p.queue)
	}
	r.senders.Wait()
}

// now returns the time on the controller's clock.
func (r *run) now() time.Duration { return time.Since(r.fleet.zero) }

func (r *run) handle(e event) {
	p := r.byLink[e.link]
	if p == nil || p.link.isLost {
		return
	}
	rec := &e.record
	switch {
	case e.err != nil:
		r.lose(p, e.err.Error())
	case p.state == over || rec.Session != nil: // the session was interrupted before this run
	case rec.Ready != nil:
		p.state = ready
		r.startIfReady()
	case rec.Began != nil:
		offset, most := p.link.clock.estimate()
		p.began, p.clockError = rec.Began.Clock-offset, most
		if !r.began {
			r.began = true
			call(r.plan.Trace.Started)
		}
	case rec.Second != nil:
		r.second(p, rec.Second, e.at)
	case rec.Samples != nil:
		if len(p.samples)+len(rec.Samples) > p.plan.Samples {
			r.lose(p, fmt.Sprintf("it reported more than the %d samples of its plan", p.plan.Samples))
			return
		}
		for i := range rec.Samples {
			p.samples = append(p.samples, agent.ReadSample(&rec.Samples[i]))
		}
	case rec.Result != nil || rec.Error != nil:
		r.end(p, rec)
	}
}

// startIfReady sends the start once no part is connecting any more.
func (r *run) startIfReady() {
	if r.startAt > 0 || r.isStopped || slices.ContainsFunc(r.parts, func(p *part) bool { return p.state == sent }) {
		return
	}
	var prepared []*part
	for _, p := range r.parts {
		if p.state == ready {
			prepared = append(prepared, p)
		}
	}
	if len(prepared) == 0 {
		return
	}
	for _, p := range r.parts {
		if p.noConnection != "" && r.fleet.options.OnLoss == End {
			r.recordLoss(p, p.noConnection)
			return
		}
	}
	call(r.plan.Trace.Connected)
	r.start(prepared)
}

// start compares the clocks of the agents that are ready, and sends the start.
func (r *run) start(prepared []*part) {
	var comparing sync.WaitGroup
	for _, p := range prepared {
		comparing.Go(p.link.compareClocks)
	}
	comparing.Wait()
	if slices.ContainsFunc(prepared, func(p *part) bool { return !p.link.clock.isKnown() }) {
		for _, p := range prepared {
			if !p.link.clock.isKnown() {
				r.lose(p, fmt.Sprintf("it replied to no ping within %v, so its clock is unknown", tripTimeout))
			}
		}
		return // losing the last of them has started the others
	}
	lead := leadTime
	for _, p := range prepared {
		_, most := p.link.clock.estimate()
		lead = max(lead, leadTime+4*most) // the way to the agent, and as much for its jitter
	}
	r.startAt = r.now() + lead
	for _, p := range prepared {
		offset, _ := p.link.clock.estimate()
		p.state = started
		p.queue <- agent.Command{Start: &agent.Start{At: r.startAt + offset}}
	}
}

func call(hook func()) {
	if hook != nil {
		hook()
	}
}

func (r *run) second(p *part, s *load.Second, at time.Duration) {
	if time.Duration(s.Index) > (at-r.sentAt)/time.Second {
		r.lose(p, fmt.Sprintf("it reported second %d, which has not begun", s.Index))
		return
	}
	if p.began > 0 {
		p.behind = max(p.behind, at-p.began-time.Duration(s.Index+1)*time.Second)
	}
	if err := r.joiner.Second(p.index, *s); err != nil {
		r.lose(p, err.Error())
		return
	}
	seen := r.joiner.Progress()
	seen.Measuring, seen.Elapsed = true, r.now()-r.startAt-r.plan.Warmup
	if r.plan.Trace.Progress != nil {
		r.plan.Trace.Progress(seen)
	}
	if n := r.plan.MaxErrors; n > 0 && seen.Errors.Total() >= n {
		r.stop()
	}
}

func (r *run) end(p *part, rec *agent.Record) {
	e := rec.Error
	if res := rec.Result; res != nil && !(res.Seconds >= 0 && res.Seconds <= (r.now()-r.sentAt+time.Second).Seconds()) {
		r.lose(p, fmt.Sprintf("it reported a result of %.3g s, which is longer than the run", res.Seconds))
		return
	}
	if e != nil && e.Kind == agent.Interrupted && !r.isStopped && isComplete(rec.Result) {
		p.early = rec.Result
		return
	}
	p.state = over
	why := ""
	switch {
	case e == nil:
	case e.Kind == agent.BadPlan:
		r.failed = &load.PlanError{Reason: strings.TrimPrefix(e.Text, "load: ")}
		r.stop()
		return
	case e.Kind == agent.NoConnection:
		why = "it could open no connection: " + strings.TrimPrefix(e.Text, "load: ")
		p.noConnection = why
		if rec.Result != nil {
			r.noConnection = rec.Result.Errors.First
		}
	case !r.isStopped:
		why = e.Text
	}
	if !isComplete(rec.Result) {
		r.joiner.Lose(p.index, cmp.Or(why, "it ended without a result"))
	} else {
		rec.Result.Samples = p.samples
		r.joiner.End(p.index, rec.Result, why)
	}
	// Before the start, startIfReady decides about agents without a connection: all may lack one.
	if e != nil && !r.isStopped && (p.noConnection == "" || r.startAt > 0) {
		r.recordLoss(p, why)
	}
	r.startIfReady()
}

// isComplete reports whether a result has what a Joiner needs.
func isComplete(r *load.Result) bool { return r != nil && r.Latency != nil && r.Service != nil }

func (r *run) lose(p *part, why string) {
	r.fleet.lose(p.link, why)
	if p.state == over {
		return // later runs do without it
	}
	p.state = over
	if p.early != nil {
		p.early.Samples = p.samples
		r.joiner.End(p.index, p.early, why)
	} else {
		r.joiner.Lose(p.index, why)
	}
	r.recordLoss(p, why)
	r.startIfReady()
}

func (r *run) recordLoss(p *part, why string) {
	r.lost = append(r.lost, fmt.Sprintf("%s was lost: %s", p.link.name, why))
	if r.fleet.options.OnLoss == End {
		r.stop()
	}
}

func (r *run) stop() {
	if r.isStopped {
		return
	}
	r.isStopped, r.stoppedAt = true, r.now()
	for _, p := range r.parts {
		if p.state != over {
			p.queue <- agent.Command{Stop: true}
		}
	}
}

// watch gives up agents that are silent or report no result.
func (r *run) watch() {
	for _, p := range r.parts {
		if p.state == over {
			continue
		}
		p.link.watch(r.fleet.options.Silence)
		if limit := r.deadline(); limit > 0 && r.now() > limit {
			p.link.giveUp("it reported no result")
		}
		if p.link.givenUp.Load() != nil && r.fleet.options.OnLoss == End {
			r.stop() // the command may take long to end, and the others would go on until then
		}
	}
}

// deadline returns when results must have arrived; 0 if that is unknown.
func (r *run) deadline() time.Duration {
	late := cmp.Or(r.plan.Timeout, load.DefaultTimeout) + resultTimeout
	switch {
	case r.isStopped:
		return r.stoppedAt + late
	case r.startAt == 0 || r.plan.Requests > 0 && r.plan.Duration == 0:
		return 0
	}
	return r.startAt + r.plan.Warmup + cmp.Or(r.plan.Duration, load.DefaultDuration) + late
}

func (r *run) result() *load.Result {
	call(r.plan.Trace.Ended)
	first := time.Duration(-1)
	for _, p := range r.parts {
		if p.began > 0 && (first < 0 || p.began < first) {
			first = p.began
		}
	}
	for _, p := range r.parts {
		p.shiftSamples(p.began - first)
	}
	res := r.joiner.Result()
	for i, p := range r.parts {
		if out := &res.Parts[i]; p.began > 0 {
			out.Began, out.ClockError, out.Behind = p.began-first, p.clockError, p.behind
		}
	}
	if n := r.plan.Samples; len(res.Samples) > n {
		res.Samples = res.Samples[:n]
	}
	return res
}

// shiftSamples converts times since this part began to those since the first one did.
func (p *part) shiftSamples(by time.Duration) {
	for i := range p.samples {
		s := &p.samples[i]
		for _, t := range []*time.Duration{&s.Due, &s.Sent, &s.First, &s.Done} {
			if *t != 0 {
				*t += by
			}
		}
	}
}
