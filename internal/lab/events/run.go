package events

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"text/template"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
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

// Run carries out a case, again if the machine disturbed it. planned is its result before. A failure
// of the contender is in the result; the error is ctx's.
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
