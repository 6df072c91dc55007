package lab

import (
	"context"
	"time"

	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/lab/trial"
)

// attribute counts system calls and traffic of every contender once under each condition. It runs
// after all timed trials, because counting costs time. The twin is not counted: it is the control.
func (w *runner) attribute(ctx context.Context) error {
	var slots []trial.Slot
	for _, c := range w.run.Conditions {
		if !c.Saturated() {
			continue // explanations concern saturation
		}
		for i := range w.run.Entrants {
			if e := &w.run.Entrants[i]; w.contenders[e.Name] != nil && e.Kind != report.Twin {
				slots = append(slots, trial.Slot{Condition: c, Contender: e.Name})
			}
		}
	}
	began := time.Now()
	for i, slot := range slots {
		w.follow(i, len(slots), w.run.Blocks, began, slot)
		records, err := w.bench.Attribute(ctx, w.contenders[slot.Contender], slot)
		if ctx.Err() != nil {
			w.warn("interrupted while counting, after all timed trials")
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		for _, rec := range records {
			w.record(rec)
		}
	}
	return nil
}
