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
	var conditions []sample.Condition
	for _, c := range w.run.Conditions {
		if c.Saturated() { // explanations concern saturation
			conditions = append(conditions, c)
		}
	}
	err := w.count(ctx, names, conditions, 0)
	if ctx.Err() != nil {
		w.recorder.Warn("interrupted while counting, after all timed trials")
	}
	return err
}

// count counts system calls of contenders in each of some blocks. 0 is once, without a block.
func (w *runner) count(ctx context.Context, names []string, conditions []sample.Condition, blocks int) error {
	measure := func(ctx context.Context, turn trial.Turn) (all []sample.Record, err error) {
		each := (w.bench.Warmup + w.bench.Measure + overhead) * time.Duration(len(names))
		report := w.progress(turn, Progress{Condition: turn.Condition}, each, max(1, blocks)*len(conditions))
		for _, name := range names {
			report(name, 0)
			slot := trial.Slot{Block: min(turn.Block, blocks), Condition: turn.Condition, Contender: name}
			rec, err := w.bench.Attribute(ctx, w.contenders[name], slot)
			if err != nil {
				return all, err
			}
			all = append(all, rec)
		}
		return all, nil
	}
	loop := trial.Loop{Conditions: conditions, Blocks: max(1, blocks), Seed: w.Seed, Measure: measure, Keep: w.keep}
	_, err := loop.Run(ctx)
	return err
}
