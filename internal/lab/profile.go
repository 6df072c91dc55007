package lab

import (
	"context"
	"slices"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
)

// profile samples the stacks of every contender, under the first condition at saturation. It runs
// after all timed trials, because sampling costs time. The twin is not sampled: it is the control.
func (w *runner) profile(ctx context.Context) error {
	i := slices.IndexFunc(w.run.Conditions, sample.Condition.Saturated)
	if i < 0 {
		return nil
	}
	err := w.profileUnder(ctx, w.run.Conditions[i])
	if ctx.Err() != nil {
		w.recorder.Warn("interrupted while sampling stacks, after all timed trials")
		return ctx.Err()
	}
	if err != nil {
		w.recorder.Note("Stacks were not sampled: %v.", err)
	}
	return nil
}

func (w *runner) profileUnder(ctx context.Context, c sample.Condition) error {
	const each = 4 * time.Second
	names := w.present()
	turn := trial.Turn{Block: 1, Condition: c, Began: time.Now()}
	report := w.progress(turn, Progress{Condition: c}, each*time.Duration(len(names)), 1)
	for _, name := range names {
		kind := w.run.Entrant(name).Kind
		if kind.IsCopy() {
			continue
		}
		report(name, 0)
		p, err := w.bench.Profile(ctx, w.contenders[name], trial.Slot{Condition: c, Contender: name})
		if err != nil {
			return err
		}
		if p.Failure != "" {
			w.recorder.Note("Stacks of %s were not sampled: %s.", p.Title, p.Failure)
			continue
		}
		p.IsControl = kind == sample.Control
		w.run.Profiles = append(w.run.Profiles, p)
	}
	return nil
}
