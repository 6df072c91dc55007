package lab

import (
	"context"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
)

// attribute counts system calls and traffic of every contender once under each condition. It runs
// after all timed trials, because counting costs time. Copies of the control are not counted.
func (w *runner) attribute(ctx context.Context) error {
	var names []string
	for _, name := range w.present() {
		if w.run.Entrant(name).Kind != sample.Twin {
			names = append(names, name)
		}
	}
	loop := trial.Loop{Blocks: 1, Seed: w.Seed, Keep: w.record}
	for _, c := range w.run.Conditions {
		if c.Saturated() { // explanations concern saturation
			loop.Conditions = append(loop.Conditions, c)
		}
	}
	_, err := loop.Run(ctx, &counted{runner: w, names: names, turns: len(loop.Conditions)})
	if ctx.Err() != nil {
		w.recorder.Warn("interrupted while counting, after all timed trials")
	}
	return err
}

// counted are contenders, while the kernel counts. They are a trial.Source.
type counted struct {
	runner *runner
	names  []string
	turns  int

	ofTargets bool // a record is of its block
}

// Prepare implements trial.Source. The contenders have served before.
func (c *counted) Prepare(context.Context) error { return nil }

// Measure implements trial.Source.
func (c *counted) Measure(ctx context.Context, turn trial.Turn) (all []sample.Record, err error) {
	w := c.runner
	each := w.bench.Warmup + w.bench.Measure + overhead
	report := w.progress(turn, Progress{Condition: turn.Condition}, each*time.Duration(len(c.names)), c.turns)
	for _, name := range c.names {
		report(name, 0)
		slot := trial.Slot{Condition: turn.Condition, Contender: name}
		if c.ofTargets {
			slot.Block = turn.Block
		}
		rec, err := w.bench.Attribute(ctx, w.contenders[name], slot)
		if err != nil {
			return all, err
		}
		all = append(all, rec)
	}
	return all, nil
}
