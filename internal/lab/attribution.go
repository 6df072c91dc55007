package lab

import (
	"context"
	"slices"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
)

// attribute counts system calls and traffic of every contender once under each condition. It runs
// after all timed trials, because counting costs time. Copies of the control are not counted.
func (w *runner) attribute(ctx context.Context) error {
	var names []string
	for _, name := range w.present() {
		if !w.run.Entrant(name).Kind.IsCopy() {
			names = append(names, name)
		}
	}
	fixed := func(c sample.Condition) bool { return !c.Saturated() } // explanations concern saturation
	conditions := slices.DeleteFunc(slices.Clone(w.run.Conditions), fixed)
	err := w.count(ctx, conditions, 1, &counted{runner: w, names: names})
	if ctx.Err() != nil {
		w.recorder.Warn("interrupted while counting, after all timed trials")
	}
	return err
}

// counted are contenders, while the kernel counts.
type counted struct {
	runner *runner
	names  []string
	turns  int

	ofTargets bool // a record is of its block, and collectors are not traced
}

// count counts in a number of blocks under each of some conditions.
func (w *runner) count(ctx context.Context, conditions []sample.Condition, blocks int, c *counted) error {
	c.turns = blocks * len(conditions)
	loop := trial.Loop{Conditions: conditions, Blocks: blocks, Seed: w.Seed, Keep: w.record, Measure: c.measure}
	_, err := loop.Run(ctx)
	return err
}

// measure is the Loop's Measure.
func (c *counted) measure(ctx context.Context, turn trial.Turn) (all []sample.Record, err error) {
	w := c.runner
	each := w.bench.Warmup + w.bench.Measure + overhead
	report := w.progress(turn, Progress{Condition: turn.Condition}, each*time.Duration(len(c.names)), c.turns)
	for _, name := range c.names {
		report(name, 0)
		slot := trial.Slot{Condition: turn.Condition, Contender: name}
		if c.ofTargets {
			slot.Block = turn.Block
		}
		records, err := w.bench.Attribute(ctx, w.contenders[name], slot)
		if err != nil {
			return all, err
		}
		if c.ofTargets {
			records = records[:1]
		}
		all = append(all, records...)
	}
	return all, nil
}
