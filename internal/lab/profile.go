package lab

import (
	"context"
	"time"

	"github.com/tarehq/tare/internal/lab/profile"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
)

// profile samples the stacks of every contender, under the first condition at saturation. It runs
// after all timed trials, because sampling costs time.
func (w *runner) profile(ctx context.Context) error {
	loop := trial.Loop[sample.Condition, profile.Profile]{Blocks: 1, Seed: w.Seed}
	loop.Keep = func(p profile.Profile) { w.run.Profiles = append(w.run.Profiles, p) }
	for _, c := range w.run.Conditions {
		if c.Saturated() {
			loop.Conditions = append(loop.Conditions, c)
			break
		}
	}
	if _, err := loop.Run(ctx, &profiled{w}); err != nil {
		if ctx.Err() != nil {
			w.warn("interrupted while sampling stacks, after all timed trials")
			return ctx.Err()
		}
		w.note("Stacks were not sampled: %v.", err)
	}
	return nil
}

// profiled are the contenders while their stacks are sampled. They are a trial.Source.
type profiled struct{ runner *runner }

// Measure implements trial.Source. The twin is not sampled: it is the control.
func (s *profiled) Measure(ctx context.Context, turn trial.Turn[sample.Condition]) (all []profile.Profile, err error) {
	const each = 4 * time.Second
	w := s.runner
	names := w.present()
	report := w.progress(turn, Progress{Condition: turn.Condition}, each*time.Duration(len(names)), 1)
	for _, name := range names {
		kind := w.run.Entrant(name).Kind
		if kind == sample.Twin || name == overLoopback {
			continue
		}
		report(name, 0)
		p, err := w.bench.Profile(ctx, w.contenders[name], trial.Slot{Condition: turn.Condition, Contender: name})
		if err != nil {
			return all, err
		}
		if p.Failure != "" {
			w.note("Stacks of %s were not sampled: %s.", p.Title, p.Failure)
			continue
		}
		p.IsControl = kind == sample.Control
		all = append(all, p)
	}
	return all, nil
}
