package trial

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/load"
)

// Shape is the part of a scenario's load that a Condition does not hold.
type Shape struct {
	// Paths are requested in turn, on the same connections, instead of the scenario's path.
	Paths []string `yaml:"paths"`
	// Beside is load of the same server at the same time. It is not part of the figures, and makes
	// the scenario Fresh, as Idle does.
	Beside []Beside `yaml:"beside"`
}

// Beside is load beside a scenario's own.
type Beside struct {
	Path        string  `yaml:"path"`
	Connections int     `yaml:"connections"`
	Rate        float64 `yaml:"rate"` // requests per second; 0 is saturation
}

const maxBeside = time.Hour // longer than any trial

// loadBeside begins the scenario's other load of the member of a trial. stop ends it, and returns an
// error if it has failed.
func (s *blockState) loadBeside(ctx context.Context) (stop func() error) {
	beside := s.bench.Shapes[s.Scenario.Name].Beside
	if len(s.up) == 0 {
		beside = nil
	}
	ctx, cancel := context.WithCancel(ctx)
	errs := make([]error, len(beside))
	var all sync.WaitGroup
	for i, other := range beside {
		at := s.up[0].running.Place()
		plan := s.bench.plan(at, s.Condition, s.generator)
		plan.URL, plan.Connections, plan.Duration = loadURL(at, other.Path), other.Connections, maxBeside
		plan.Threads, plan.Pace = min(plan.Threads, other.Connections), load.Pace{}
		plan.Expect.Body = s.bench.Bodies[other.Path]
		if other.Rate > 0 {
			plan.Pace = load.Constant(other.Rate)
		}
		all.Go(func() {
			result, err := load.Run(ctx, plan)
			switch {
			case err != nil && ctx.Err() == nil:
				errs[i] = err
			case result != nil: // else stop was called before the load began
				if why := fault(result, "nothing was received"); why != "" {
					errs[i] = errors.New(other.Path + ": " + why)
				}
			}
		})
	}
	return func() error {
		cancel()
		all.Wait()
		return errors.Join(errs...)
	}
}

// restFactor is how much longer than the load of other trials connections rest while their CPU time
// is measured.
const restFactor = 5

// measureIdle opens connections, each of which carries one request, and measures the memory that
// they add, and the CPU time that the contender uses while they are idle.
func (s *blockState) measureIdle(ctx context.Context, m *member) error {
	if err := sleep(ctx, s.Measure); err != nil {
		return err
	}
	before, err := m.running.Usages()
	if err != nil {
		return err
	}
	if err := s.connect(ctx, m); err != nil || m.session == nil {
		return err
	}
	if err := sleep(ctx, s.Measure); err != nil {
		return err
	}
	with, err := m.running.Usages()
	if err != nil {
		return err
	}
	rec := &m.rec
	rec.Idle = &sample.Idle{Before: resident(before), With: resident(with)}
	rec.Asleep.For = restFactor * s.Measure
	if err := sleep(ctx, rec.Asleep.For); err != nil {
		return err
	}
	later, err := m.running.Usages()
	if err != nil {
		return err
	}
	for role, usages := range later {
		rec.Costs[role] = proc.Costs(with[role], usages)
		for _, c := range rec.Costs[role] {
			rec.Asleep.CPU += c.CPU()
		}
	}
	if rec.Load = m.session.Close(); rec.Load.Errors.Total() > 0 {
		rec.Failure, rec.Load = "connections were not idle: "+rec.Load.Errors.First, nil
	}
	s.records = append(s.records, *rec)
	return s.remove(m)
}

func resident(usages map[string][]proc.Usage) (bytes int64) {
	for _, all := range usages {
		for _, u := range all {
			bytes += u.RSS
		}
	}
	return bytes
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
