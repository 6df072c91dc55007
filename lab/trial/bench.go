package trial

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
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
	cores := c.Cores
	if cores == 0 {
		cores = len(b.CPUs)
	}
	return contender.Setting{Cores: cores, CPUs: servers, Host: b.Request.Host, Conf: b.Conf}
}

// Run carries out one trial. What goes wrong with the contender is in the record;
// the error is for what goes wrong with the bench, or ctx's.
func (b *Bench) Run(ctx context.Context, c *contender.Contender, slot Slot) (rec Record, err error) {
	rec = Record{Block: slot.Block, Condition: slot.Condition, Contender: slot.Contender, Start: time.Now()}
	running, err := b.Stage.Start(ctx, c, b.Setting(slot.Condition), b.Ready(c))
	if ctx.Err() != nil {
		return rec, ctx.Err()
	}
	if err != nil {
		rec.Failure = err.Error()
		return rec, nil
	}
	err = b.measure(ctx, running, &rec)
	if stopErr := running.Stop(); err == nil && stopErr != nil {
		err = fmt.Errorf("%s: stop: %w", c.Name, stopErr)
	}
	return rec, err
}

// errDied is why a trial's load ends when its contender does.
var errDied = errors.New("contender died")

// measure loads a running contender and fills in the record.
func (b *Bench) measure(ctx context.Context, running *contender.Running, rec *Record) error {
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
		return err
	}
	defer restore()
	before, after := look{running: running}, look{running: running}
	result, err := load.Run(loadCtx, load.Plan{
		URL: loadURL(running.Place(), b.Request.Path), Method: b.Request.Method, Header: []string{"Host: " + b.Request.Host},
		Connections: rec.Connections, Threads: min(len(generator), rec.Connections), CPUs: generator,
		Warmup: b.Warmup, Duration: b.Measure, Timeout: requestTimeout,
		Trace: &load.Trace{Started: before.take, Ended: after.take, Progress: b.Progress},
	})
	switch {
	case errors.Is(context.Cause(loadCtx), errDied):
		rec.Failure = running.WhyDead().Error()
		return nil
	case err != nil:
		return err
	case before.err != nil || after.err != nil:
		return errors.Join(before.err, after.err)
	case result.Requests == 0:
		rec.Failure = fmt.Sprintf("no response under load: %s", result.Errors.First)
		return nil
	}
	rec.Load = result
	rec.Costs = make(map[string][]proc.Cost)
	busy := after.machine.Busy - before.machine.Busy
	for role, usages := range after.usages {
		rec.Costs[role] = proc.Costs(before.usages[role], usages)
		for _, c := range rec.Costs[role] {
			busy -= c.CPU()
		}
	}
	own := time.Duration((result.Generator.UserSeconds + result.Generator.SysSeconds) * float64(time.Second))
	rec.Others = max(0, busy-own)
	rec.MachineAccepted = after.machine.PassiveOpens - before.machine.PassiveOpens
	return nil
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
	running *contender.Running
	usages  map[string][]proc.Usage
	machine proc.Machine
	err     error
}

func (l *look) take() {
	var machineErr error
	l.usages, l.err = l.running.Usages()
	l.machine, machineErr = proc.Now()
	l.err = errors.Join(l.err, machineErr)
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
