package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/load"
)

// Bench runs trials, one at a time.
type Bench struct {
	Stage   *contender.Stage
	CPUs    []int // that this process may use
	Request equal.Request
	Conf    *template.Template // the experiment's nginx.conf
	Warmup  time.Duration
	Measure time.Duration

	// Generator produces the load; nil is this process.
	Generator Generator

	// Template is the generator's path, with expressions of package load; "" is the request's path.
	Template string

	// Statuses are the expected ones; none means all below 400.
	Statuses []int
	// Bodies are the expected bodies by the path of a Scenario; one that is missing or nil is any.
	Bodies map[string][]byte

	// Shapes are parts of the load that a Condition does not hold, by the name of its scenario.
	Shapes map[string]Shape
	// Env are more variables for all applications.
	Env []string
}

// requestTimeout is the time after which the generator counts a missing response as an error. The
// slowest contenders need seconds for 5000 connections.
const requestTimeout = 10 * time.Second

// Ready returns a function for contender.Stage that checks whether a contender responds.
func (b *Bench) Ready(c *contender.Contender) func(ctx context.Context, address string) error {
	return func(ctx context.Context, address string) error { return equal.Ready(ctx, c.At(address), b.Request) }
}

// Setting returns the setting of contenders under a condition.
func (b *Bench) Setting(c sample.Condition) contender.Setting {
	servers, _ := Layout(b.CPUs, c.Cores)
	cores := cmp.Or(c.Cores, len(b.CPUs))
	return contender.Setting{
		Cores: cmp.Or(c.Procs, cores), Workers: cores, CPUs: servers, Host: b.Request.Host,
		Conf: b.Conf, Env: b.Env,
	}
}

// Run carries out one trial. A failure of the contender is in the record. The error is ctx's, or a
// failure of the bench.
func (b *Bench) Run(ctx context.Context, c *contender.Contender, slot Slot) (sample.Record, error) {
	return b.run(ctx, c, slot, nil)
}

// run carries out one trial. If counted is not nil, it counts and fills it in.
func (b *Bench) run(ctx context.Context, c *contender.Contender, slot Slot,
	counted *sample.Attribution) (rec sample.Record, err error) {
	rec = sample.Record{Block: slot.Block, Condition: slot.Condition, Contender: slot.Contender, Start: time.Now()}
	rec.Attribution = counted
	running, err := b.Stage.Start(ctx, c, b.Setting(slot.Condition), b.Ready(c))
	if ctx.Err() != nil {
		return rec, ctx.Err()
	}
	if err != nil {
		rec.Failure = err.Error()
		return rec, nil
	}
	measure := b.measure
	if rec.Scenario.Idle {
		measure = b.measureIdle
	}
	err = measure(ctx, running, &rec, counted)
	if stopErr := running.Stop(); err == nil && stopErr != nil {
		err = fmt.Errorf("%s: stop: %w", c.Name, stopErr)
	}
	return rec, err
}

// errDied ends the load of a trial whose contender has died.
var errDied = errors.New("contender died")

// lengthen multiplies the measured time of a trial without responses and errors.
const lengthen = 4

// measure loads a running contender and fills in the record. Without responses and errors, the time
// was too short for one response: the contender is slow, or other programs used the processors.
// Then measure repeats the load for a longer time, up to requestTimeout.
func (b *Bench) measure(ctx context.Context, running *contender.Running, rec *sample.Record,
	to *sample.Attribution) error {
	for once := *b; ; once.Measure = min(lengthen*once.Measure, requestTimeout) {
		silent, err := once.measureOnce(ctx, running, rec, to)
		if err != nil || !silent || once.Measure >= requestTimeout {
			return err
		}
		rec.Failure = ""
	}
}

// measureOnce loads a running contender for Measure and fills in the record. silent reports whether
// there were neither responses nor errors.
func (b *Bench) measureOnce(ctx context.Context, running *contender.Running, rec *sample.Record,
	to *sample.Attribution) (silent bool, err error) {
	loadCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-running.Dead():
			cancel(errDied)
		case <-over:
		}
	}()

	restore, generator, err := b.moveAside(rec.Condition)
	if err != nil {
		return false, err
	}
	defer restore()
	calls := count(to)
	defer func() { err = errors.Join(err, calls.Close()) }()
	cpus := b.CPUs
	if generator != nil {
		servers, _ := Layout(b.CPUs, rec.Cores)
		cpus = slices.Concat(servers, generator)
	}
	before := look{running: running, calls: calls, cpus: proc.NewCPUs(cpus)}
	after := look{running: running, calls: calls, cpus: before.cpus, before: &before}
	plan := b.plan(running.Place(), rec.Condition, generator)
	plan.Trace = &load.Trace{Started: before.take, Ended: after.take}
	result, err := b.loadAll(loadCtx, plan, running.Place(), rec.Condition)
	switch {
	case errors.Is(context.Cause(loadCtx), errDied):
		rec.Failure = running.WhyDead().Error()
		return false, nil
	case err != nil:
		return false, err
	case before.err != nil || after.err != nil:
		return false, errors.Join(before.err, after.err)
	}
	if rec.Failure = handshakeFault(&rec.Scenario, result); rec.Failure != "" {
		return false, nil
	}
	if rec.Failure = fault(result, fmt.Sprintf("nothing was received in %v", b.Measure)); rec.Failure != "" {
		rec.Failure += running.Printed()
		return result.Requests == 0 && result.Errors.Total() == 0, nil
	}
	fill(rec, result, &before, &after, b.Generator == nil)
	if after.calls != nil { // it includes processes that only one look found
		to.Calls = callsByRole(&before, &after)
	}
	return false, nil
}

// fill fills in the load's result and the differences of two looks. isOwn reports whether this
// process generated the load.
func fill(r *sample.Record, result *load.Result, before, after *look, isOwn bool) {
	r.Load = result
	r.Costs = make(map[string][]proc.Cost)
	busy := after.busy - before.busy
	for role, usages := range after.usages {
		r.Costs[role] = proc.Costs(before.usages[role], usages)
		for _, c := range r.Costs[role] {
			busy -= c.CPU()
		}
	}
	r.Generator = remoteCost(result)
	own := r.Generator.CPU()
	if !isOwn {
		own = 0
	}
	if before.busyKnown && after.busyKnown {
		r.Others = max(0, busy-own)
	}
	if isOwn {
		r.Generator = generatorCost(before.own, after.own)
	}
}

// plan returns the generator's plan, with requests like those of equal.Fetch.
func (b *Bench) plan(at contender.Place, c sample.Condition, cpus []int) load.Plan {
	s, r := &c.Scenario, c.Scenario.Request(b.Request)
	path, isTemplate := r.Path, false
	if b.Template != "" && s.Path == "" {
		path, isTemplate = b.Template, true
	}
	p := load.Plan{
		URL: loadURL(at, path), Template: isTemplate, TLS: clientTLS(s, at, r.Host),
		Method: r.Method, Header: []string{"Host: " + r.Host},
		Connections: c.Connections, Threads: min(len(cpus), c.Connections), CPUs: cpus,
		Warmup: b.Warmup, Duration: b.Measure, Timeout: requestTimeout, PerConnection: r.PerConnection,
		Pipeline: max(1, s.Streams), Expect: load.Expect{Status: b.Statuses, Body: b.Bodies[s.Path]},
	}
	if !c.Saturated() {
		p.Pace = load.Constant(c.Rate)
	}
	for _, path := range b.Shapes[s.Name].Paths {
		p.List = append(p.List, load.Request{URL: path})
	}
	if s.Spaced { // a single thread opens connections in a known order
		p.Threads, p.Spare = 1, max(1, len(b.CPUs)-1)
	}
	if at.Protocol == contender.HTTP {
		p.Header = append(p.Header, r.Header...)
		p.Version = version(r.Version)
	}
	return p
}

// loadURL returns the generator's URL for a place: its scheme names the protocol and the network.
func loadURL(at contender.Place, path string) string {
	scheme := "http"
	if at.Protocol == contender.FastCGI {
		scheme = "fcgi"
	}
	if at.TLS {
		scheme += "s"
	}
	if at.Network() == "tcp" {
		return scheme + "://" + at.Address + path
	}
	socket := url.URL{Path: at.Address}
	return scheme + "+unix://" + strings.ReplaceAll(socket.EscapedPath(), ":", "%3A") + ":" + path
}

// look holds what was read at the start or the end of the measured time.
type look struct {
	running *contender.Running
	calls   *proc.Calls // nil if they are not counted
	before  *look       // the look at the start; nil in that one itself
	usages  map[string][]proc.Usage
	own     []proc.Usage // this process's
	cpus    proc.CPUs    // of the trial

	busy      time.Duration // of cpus
	busyKnown bool
	counted   proc.CallCounts
	err       error
}

// take fills in the look. Counts per request are read as close to the measured time as possible:
// last at its start, first at its end.
func (l *look) take() {
	var countErr, busyErr error
	if l.before != nil {
		l.counted, countErr = l.calls.Counts()
	}
	l.usages, l.err = l.running.Usages()
	self, ownErr := proc.Self(sample.RoleGenerator)
	l.own = []proc.Usage{self}
	l.busy, l.busyKnown, busyErr = l.cpus.Busy()
	if l.before == nil {
		l.counted, countErr = l.calls.Counts()
	}
	l.err = errors.Join(l.err, ownErr, busyErr, countErr)
}

// moveAside keeps this process off the servers' processors. generator are the processors of the
// generator's threads; none if servers and generator share all.
func (b *Bench) moveAside(c sample.Condition) (restore func(), generator []int, err error) {
	_, generator = Layout(b.CPUs, c.Cores)
	if generator == nil {
		return func() {}, nil, nil
	}
	if err := bindProcess(generator); err != nil {
		return nil, nil, err
	}
	return func() { _ = bindProcess(b.CPUs) }, generator, nil
}

// bindProcess sets the processors of all threads of this process.
func bindProcess(cpus []int) error {
	return contender.EachThread(func(tid int) error { return contender.BindTask(tid, cpus) })
}
