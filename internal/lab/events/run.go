package events

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"text/template"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
)

// Setting is what all cases share.
type Setting struct {
	Plan  *Plan
	Stage *contender.Stage
	Conf  *template.Template // nil without a front
	Log   func(format string, args ...any)
	Warn  func(format string, args ...any)
}

// Chosen returns the cases with the given names, with each kind of stream and number of clients;
// without names it returns all.
func (e *Plan) Chosen(only []string) (cases []Case) {
	for _, c := range e.Cases {
		if len(only) == 0 || slices.Contains(only, c.Name) {
			cases = append(cases, c)
		}
	}
	if len(e.Streams.Kinds) > 0 {
		return e.Streams.with(cases)
	}
	return cases
}

// LengthOf returns how long a case takes.
func (e *Plan) LengthOf(c *Case) time.Duration { return time.Duration(cmp.Or(c.length, e.Length)) }

// Run carries out a case, and again if the machine disturbed it. planned is the case without
// results. If the contender fails, the result has the failure; the error is ctx's.
func (s *Setting) Run(ctx context.Context, c *Case, built *contender.Contender,
	planned sample.Case) (sample.Case, error) {
	return undisturbed(time.Duration(s.Plan.Timeout), func() (sample.Case, error) {
		result := planned
		err := s.carryOut(ctx, c, built, &result)
		return result, err
	}, func(why string) { s.Log("%s: %s", c.Title, why) })
}

// carryOut starts the contender of a case, lets clients send requests while its plan happens, and
// ends it. A failure of the contender is in the case's result; the error is ctx's.
func (s *Setting) carryOut(ctx context.Context, c *Case, built *contender.Contender, result *sample.Case) error {
	cpus, err := contender.AllCPUs()
	if err != nil {
		return err
	}
	ready := equal.Ready(built, equal.Request{Method: http.MethodGet, Path: "/", Host: "localhost"})
	if c.kind != nil {
		ready = c.kind.ready
	}
	happen := &happening{plan: s.Plan, of: c, cpus: cpus, result: result}
	for range max(1, c.copies) {
		var running *contender.Running
		if running, err = s.Stage.Start(ctx, built, contender.Setting{
			Cores: len(cpus), Host: "localhost", Conf: s.Conf, Replicas: c.Replicas, Activated: c.Activated,
			Files: s.Plan.Files, Replaced: c.kind != nil,
		}, ready); err != nil {
			break
		}
		defer func() {
			if err := running.Stop(); err != nil {
				s.Warn("%s: stop: %v", c.Title, err)
			}
		}()
		happen.running = append(happen.running, running)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		result.Absent = err.Error()
		s.Log("left out: %s: %v", c.Title, err)
		return nil
	}
	err = happen.run(ctx)
	if err != nil && ctx.Err() == nil {
		result.Absent = err.Error()
		s.Log("failed: %s: %v", c.Title, err)
		return nil
	}
	return err
}

const maxRepeats = 2 // limits how often a case is carried out again

// undisturbed carries out a case up to twice: again if it reports that the machine disturbed it. It
// returns the result whose requests were the least late, or after an error the last one.
func undisturbed(timeout time.Duration, carryOut func() (sample.Case, error),
	report func(why string)) (best sample.Case, err error) {
	for n := range 1 + maxRepeats {
		c, err := carryOut()
		if err != nil || c.Absent != "" {
			return c, err
		}
		if n == 0 || c.Latest() < best.Latest() {
			best = c
		}
		why := c.Disturbance(timeout)
		if why == "" {
			return c, nil
		}
		report(why)
	}
	return best, nil
}

// look holds the resources that processes and processors have used so far.
type look struct {
	at           time.Time
	processes    []proc.Process // of the server
	server       []proc.Usage
	lab          time.Duration
	busy, stolen time.Duration
}

func lookAt(running []*contender.Running, cpus *proc.CPUs) (look, error) {
	all, err := processes(running)
	if err != nil {
		return look{}, err
	}
	user, sys := proc.Self()
	l := look{at: time.Now(), processes: all, lab: user + sys}
	var cpusErr error
	l.server, err = proc.Usages(all)
	l.busy, l.stolen, cpusErr = cpus.Use()
	return l, errors.Join(err, cpusErr)
}

func (l *look) until(later *look, cores int) sample.Work {
	return sample.Work{
		Cores: cores, Length: later.at.Sub(l.at),
		Server: proc.Spent(l.server, later.server), Clients: later.lab - l.lab,
		Busy: later.busy - l.busy, Stolen: later.stolen - l.stolen,
	}
}

func processes(running []*contender.Running) (all []proc.Process, err error) {
	for _, r := range running {
		some, err := r.Processes()
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b proc.Process) int { return a.PID - b.PID })
	return slices.CompactFunc(all, func(a, b proc.Process) bool { return a.PID == b.PID }), nil
}
