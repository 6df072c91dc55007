package lab

import (
	"context"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/events"
	"github.com/tarehq/tare/internal/lab/sample"
)

func (w *runner) planCases() error {
	plan := &w.experiment.Events
	if err := plan.Adjust(w.trials.Connections, w.trials.Measure); err != nil {
		return UsageErrorf(OptionConnections, "%v", err)
	}
	w.cases, w.run.Measure = plan.Chosen(w.Only), time.Duration(plan.Length)
	w.run.Events = &sample.Events{Timeout: time.Duration(plan.Timeout), Groups: plan.Groups}
	return nil
}

// gatherCases builds the contenders. It leaves out cases whose contender cannot be built, and
// returns an error for a malformed file.
func (w *runner) gatherCases(ctx context.Context) error {
	for i := range w.cases {
		c := &w.cases[i]
		spec, err := w.spec(c.Contender)
		if err != nil {
			return err
		}
		spec.Set = c.Set
		built, err := w.Tools.Prepare(ctx, spec)
		result := sample.Case{Name: c.Name, Title: c.Title, About: c.About}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			result.Absent = err.Error()
			w.recorder.Log("left out: %s: %v", c.Title, err)
		default:
			result.Versions, w.contenders[c.Name] = built.Versions, built
		}
		w.run.Events.Cases = append(w.run.Events.Cases, result)
	}
	return nil
}

func (w *runner) runCases(ctx context.Context, stage *contender.Stage) (err error) {
	s := events.Setting{
		Plan: &w.experiment.Events, Stage: stage, Conf: w.conf, Log: w.recorder.Log, Warn: w.recorder.Warn,
	}
	var done, total time.Duration
	for i := range w.cases {
		total += s.Plan.LengthOf(&w.cases[i])
	}
	for i := range w.cases {
		c, result := &w.cases[i], &w.run.Events.Cases[i]
		if result.Absent == "" {
			if w.Progress != nil {
				w.Progress(Progress{Done: done, Total: total, Contender: c.Title})
			}
			if *result, err = s.Run(ctx, c, w.contenders[c.Name], *result); err != nil {
				w.recorder.Warn("interrupted in case %d of %d", i+1, len(w.cases))
				return err
			}
			w.recorder.Save()
		}
		done += s.Plan.LengthOf(c)
	}
	return nil
}
