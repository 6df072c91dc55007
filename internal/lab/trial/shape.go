package trial

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/load"
)

// Shape is the part of a scenario's load that a Condition does not hold.
type Shape struct {
	Paths  []string // are requested in turn instead of the scenario's path
	Beside []Beside // load of the same server at the same time; only in trials alone
}

// Beside is load beside a scenario's own. Its figures are not recorded.
type Beside struct {
	Path        string  `yaml:"path"`
	Connections int     `yaml:"connections"`
	Rate        float64 `yaml:"rate"` // requests per second; 0 is saturation
}

// loadAll runs a plan, with the scenario's other load beside it. If that fails, so does the trial.
func (b *Bench) loadAll(ctx context.Context, p load.Plan, at contender.Place,
	c sample.Condition) (*load.Result, error) {
	beside := b.Shapes[c.Scenario.Name].Beside
	errs, source := make([]error, len(beside)), b.generator()
	var all sync.WaitGroup
	for i, other := range beside {
		plan := p
		plan.Trace, plan.URL, plan.Connections = nil, loadURL(at, other.Path), other.Connections
		plan.Threads, plan.Pace = min(p.Threads, other.Connections), load.Pace{}
		plan.Expect.Body = b.Bodies[other.Path]
		if other.Rate > 0 {
			plan.Pace = load.Constant(other.Rate)
		}
		all.Go(func() {
			result, err := source.Run(ctx, plan)
			if err == nil {
				if why := fault(result, "nothing was received"); why != "" {
					err = errors.New(other.Path + ": " + why)
				}
			}
			errs[i] = err
		})
	}
	result, err := source.Run(ctx, p)
	all.Wait()
	return result, errors.Join(append(errs, err)...)
}

// restFactor is how much longer than the load of other trials connections rest while their CPU time
// is measured.
const restFactor = 5

// measureIdle opens connections, each of which carries one request, and measures the memory that
// they add, and the CPU time that the contender uses while they are idle.
func (b *Bench) measureIdle(ctx context.Context, running *contender.Running, rec *sample.Record,
	_ *sample.Attribution) error {
	if err := sleep(ctx, b.Measure); err != nil {
		return err
	}
	before, err := running.Usages()
	if err != nil {
		return err
	}
	session, err := b.generator().Open(ctx, b.plan(running.Place(), rec.Condition, nil))
	var unreached *load.ConnectError
	if errors.As(err, &unreached) {
		rec.Failure = unreached.Error()
		return nil
	}
	if err != nil {
		return err
	}
	defer session.Close()
	if err := sleep(ctx, b.Measure); err != nil {
		return err
	}
	with, err := running.Usages()
	if err != nil {
		return err
	}
	rec.Idle = &sample.Idle{Before: resident(before), With: resident(with), After: b.Measure}
	rec.Asleep.For = restFactor * b.Measure
	if err := sleep(ctx, rec.Asleep.For); err != nil {
		return err
	}
	later, err := running.Usages()
	if err != nil {
		return err
	}
	rec.Costs = make(map[string][]proc.Cost)
	for role, usages := range later {
		rec.Costs[role] = proc.Costs(with[role], usages)
		for _, c := range rec.Costs[role] {
			rec.Asleep.CPU += c.CPU()
		}
	}
	if rec.Load = session.Close(); rec.Load.Errors.Total() > 0 {
		rec.Failure, rec.Load = "connections were not idle: "+rec.Load.Errors.First, nil
	}
	return nil
}

// resident returns the resident memory of all processes.
func resident(usages map[string][]proc.Usage) (bytes int64) {
	for _, all := range usages {
		for _, u := range all {
			bytes += u.RSS
		}
	}
	return bytes
}

// sleep waits for d. The error is ctx's.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
