package lab

import (
	"context"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
)

// attribute counts system calls and traffic of every contender once under each condition. It runs
// after all timed trials, because counting costs time.
func (w *runner) attribute(ctx context.Context) error {
	loop := trial.Loop{Blocks: 1, Seed: w.Seed, Keep: w.record}
	for _, c := range w.run.Conditions {
		if c.Saturated() { // explanations concern saturation
			loop.Conditions = append(loop.Conditions, c)
		}
	}
	_, err := loop.Run(ctx, &counted{w, len(loop.Conditions)})
	if ctx.Err() != nil {
		w.warn("interrupted while counting, after all timed trials")
	}
	return err
}

// counted are the contenders, while the kernel counts. They are a trial.Source.
type counted struct {
	runner     *runner
	conditions int
}

// Measure implements trial.Source. Copies of the control are not counted.
func (c *counted) Measure(ctx context.Context, turn trial.Turn) (all []sample.Record, err error) {
	w := c.runner
	names := w.present()
	each := w.bench.Warmup + w.bench.Measure + overhead
	report := w.progress(turn, Progress{Condition: turn.Condition}, each*time.Duration(len(names)), c.conditions)
	for _, name := range names {
		if w.run.Entrant(name).Kind.IsCopy() {
			continue
		}
		report(name, 0)
		records, err := w.bench.Attribute(ctx, w.contenders[name],
			trial.Slot{Condition: turn.Condition, Contender: name})
		if err != nil {
			return all, err
		}
		all = append(all, records...)
	}
	return all, nil
}
