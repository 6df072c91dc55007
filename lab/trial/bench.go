package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/lab/contender"
	"github.com/tarehq/tare/lab/equal"
	"github.com/tarehq/tare/lab/proc"
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

	// Template is the path that the generator asks for, with expressions of package load, if that is
	// not the request's.
	Template string

	// Statuses are those that count as no error; none means all below 400.
	Statuses []int
	// Body is that of every response; nil is any.
	Body []byte

	// Progress is told how far the current trial is; it may be nil.
	Progress func(load.Progress)
}

// requestTimeout is how long the generator waits for a response before it counts an
// error. The slowest ways need seconds for 5000 connections.
const requestTimeout = 10 * time.Second

// Ready returns a probe of a contender, for contender.Stage.
func (b *Bench) Ready(c *contender.Contender) func(ctx context.Context, address string) error {
	return func(ctx context.Context, address string) error { return equal.Ready(ctx, c.At(address), b.Request) }
}

// Setting is how a contender is run under a condition.
func (b *Bench) Setting(c Condition) contender.Setting {
	servers, _ := Layout(b.CPUs, c.Cores)
	cores := cmp.Or(c.Cores, len(b.CPUs))
	return contender.Setting{
		Cores: cmp.Or(c.Procs, cores), Workers: cmp.Or(c.Workers, cores), CPUs: servers, Host: b.Request.Host, Conf: b.Conf,
	}
}

// Run carries out one trial. What goes wrong with the contender is in the record;
// the error is for what goes wrong with the bench, or ctx's.
func (b *Bench) Run(ctx context.Context, c *contender.Contender, slot Slot) (Record, error) {
	return b.run(ctx, c, slot, nil)
}

// run carries out one trial, and counts if there is an attribution to fill in.
func (b *Bench) run(ctx context.Context, c *contender.Contender, slot Slot, a *Attribution) (rec Record, err error) {
	rec = Record{Block: slot.Block, Condition: slot.Condition, Contender: slot.Contender, Start: time.Now(), Attribution: a}
	set := b.Setting(slot.Condition)
	if a != nil && a.traced {
		set.Env = []string{collectorEnv()}
	}
	running, err := b.Stage.Start(ctx, c, set, b.Ready(c))
	if ctx.Err() != nil {
		return rec, ctx.Err()
	}
	if err != nil {
		rec.Failure = err.Error()
		return rec, nil
	}
	err = b.measure(ctx, running, &rec)
	if a != nil && a.traced && err == nil {
		a.Collector, err = collector(running, rec.measured())
	}
	if stopErr := running.Stop(); err == nil && stopErr != nil {
		err = fmt.Errorf("%s: stop: %w", c.Name, stopErr)
	}
	return rec, err
}

// errDied is why a trial's load ends when its contender does.
var errDied = errors.New("contender died")

// lengthen is how many times as long is measured again when nothing came in the time.
const lengthen = 4

// measure loads a running contender and fills in the record. Where nothing came although nothing
// went wrong, the time was too short for one response, because the contender is slow or others had
// the processors: it is measured again for longer, up to what one response may take.
func (b *Bench) measure(ctx context.Context, running *contender.Running, rec *Record) error {
	for once := *b; ; once.Measure = min(lengthen*once.Measure, requestTimeout) {
		silent, err := once.measureOnce(ctx, running, rec)
		if err != nil || !silent || once.Measure >= requestTimeout {
			return err
		}
		rec.Failure = ""
	}
}

// measureOnce loads a running contender for Measure and fills in the record. It reports whether
// neither a response came nor an error.
func (b *Bench) measureOnce(ctx context.Context, running *contender.Running, rec *Record) (silent bool, err error) {
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
	counters := count(running, rec.Attribution)
	defer func() { err = errors.Join(err, counters.close()) }()
	cpus := b.CPUs
	if generator != nil {
		servers, _ := Layout(b.CPUs, rec.Cores)
		cpus = slices.Concat(servers, generator)
	}
	before := look{running: running, counters: counters, cpus: cpus}
	after := look{running: running, counters: counters, cpus: cpus, before: &before}
	plan := b.plan(running.Place(), rec.Condition, generator)
	plan.Trace = &load.Trace{Started: before.take, Ended: after.take, Progress: b.Progress}
	result, err := load.Run(loadCtx, plan)
	switch {
	case errors.Is(context.Cause(loadCtx), errDied):
		rec.Failure = running.WhyDead().Error()
		return false, nil
	case err != nil:
		return false, err
	case before.err != nil || after.err != nil:
		return false, errors.Join(before.err, after.err)
	}
	if rec.Failure = fault(result, fmt.Sprintf("nothing came in %v", b.Measure)); rec.Failure != "" {
		return result.Requests == 0 && result.Errors.Total() == 0, nil
	}
	rec.fill(result, &before, &after)
	counters.attribute(&before, &after)
	return false, nil
}

// fill fills in what was seen at both ends of the measured time, and between them.
func (r *Record) fill(result *load.Result, before, after *look) {
	r.Load = result
	r.Costs = make(map[string][]proc.Cost)
	busy := after.busy - before.busy
	for role, usages := range after.usages {
		r.Costs[role] = proc.Costs(before.usages[role], usages)
		for _, c := range r.Costs[role] {
			busy -= c.CPU()
		}
	}
	own := time.Duration((result.Generator.UserSeconds + result.Generator.SysSeconds) * float64(time.Second))
	if before.busyKnown && after.busyKnown {
		r.Others = max(0, busy-own)
	}
	r.MachineAccepted = after.accepted - min(before.accepted, after.accepted)
	r.Generator = generatorCost(before.own, after.own)
}

// plan is what the generator does: it asks as equal.Fetch has asked.
func (b *Bench) plan(at contender.Place, c Condition, cpus []int) load.Plan {
	p := load.Plan{
		URL: loadURL(at, cmp.Or(b.Template, b.Request.Path)), Template: b.Template != "",
		Method: b.Request.Method, Header: []string{"Host: " + b.Request.Host},
		Connections: c.Connections, Threads: min(len(cpus), c.Connections), CPUs: cpus,
		Warmup: b.Warmup, Duration: b.Measure, Timeout: requestTimeout, PerConnection: b.Request.PerConnection,
		Expect: load.Expect{Status: b.Statuses, Body: b.Body},
	}
	if !c.Saturated() {
		p.Pace = load.Constant(c.Rate)
	}
	if at.Protocol == contender.HTTP {
		p.Header = append(p.Header, b.Request.Header...)
		if b.Request.Version == "1.0" {
			p.Version = load.HTTP10
		}
	}
	return p
}

// loadURL is how the generator is told where to send requests, and in which protocol.
func loadURL(at contender.Place, path string) string {
	scheme := "http"
	if at.Protocol == contender.FastCGI {
		scheme = "fcgi"
	}
	if at.Network() == "tcp" {
		return scheme + "://" + at.Address + path
	}
	socket := url.URL{Path: at.Address}
	return scheme + "+unix://" + strings.ReplaceAll(socket.EscapedPath(), ":", "%3A") + ":" + path
}

// look is what there is to see at one end of the measured time.
type look struct {
	running  *contender.Running
	counters *counters
	before   *look // at the other end, if that is over
	usages   map[string][]proc.Usage
	own      []proc.Usage // this process's
	cpus     []int        // that the trial uses

	busy      time.Duration // of those CPUs
	busyKnown bool
	accepted  uint64 // TCP connections, by any program
	time      time.Time
	counted   tally
	err       error
}

// take looks. What is counted by the request is read as close to the measured time as can be:
// last before it, first after it.
func (l *look) take() {
	l.time = time.Now()
	var countErr, busyErr error
	if l.before != nil {
		l.counted, countErr = l.counters.take(l.before.usages)
	}
	l.usages, l.err = l.running.Usages()
	self, ownErr := proc.Self(RoleGenerator)
	l.own = []proc.Usage{self}
	l.busy, l.busyKnown, busyErr = proc.Busy(l.cpus)
	l.accepted = proc.PassiveOpens()
	if l.before == nil {
		l.counted, countErr = l.counters.take(l.usages)
	}
	l.err = errors.Join(l.err, ownErr, busyErr, countErr)
}

// moveAside keeps this process off the servers' processors, and returns those that
// the generator's threads are bound to; none where servers and generator share all.
func (b *Bench) moveAside(c Condition) (restore func(), generator []int, err error) {
	_, generator = Layout(b.CPUs, c.Cores)
	if generator == nil {
		return func() {}, nil, nil
	}
	if err := bindProcess(generator); err != nil {
		return nil, nil, err
	}
	return func() { _ = bindProcess(b.CPUs) }, generator, nil
}

// bindProcess sets the processors of all threads of this process. Threads to come
// inherit them.
func bindProcess(cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	tasks, err := filepath.Glob("/proc/self/task/[0-9]*")
	if err != nil {
		return err
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(filepath.Base(task))
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("trial: %w", os.NewSyscallError("sched_setaffinity", err))
		}
	}
	return nil
}
