//go:build linux

package cli

import (
	"errors"
	"fmt"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/report"
)

// bounds parses --fail-if, which requires two builds and trials that can decide it.
func (f *weighFlags) bounds(o *lab.Options) ([]report.Bound, error) {
	if !f.isSet("fail-if") {
		return nil, nil
	}
	if o.Subject == nil || o.Subject.Experiment.Build == "" {
		return nil, errors.New("--fail-if requires two builds: set --a and --b")
	}
	bounds, err := report.ParseBounds(f.own.failIf)
	if err == nil {
		trials := o.Trials(o.Subject.Experiment)
		err = report.CheckBounds(bounds, o.Until.Most(trials.Blocks), trials.Rate.IsSet())
	}
	if err != nil {
		return nil, fmt.Errorf("--fail-if: %w", err)
	}
	return bounds, nil
}

// judge prints whether the bounds hold. It returns nil if all do, and an error with exitFail if one
// is violated. Otherwise the error has exitUndecided, also if the run failed. runErr is the error
// of the run, and a is nil if nothing was measured.
func judge(env Env, a *report.Report, bounds []report.Bound, runErr error) error {
	if e, ok := errors.AsType[*exitError](runErr); ok && (e.code == exitUsage || e.code == exitStop) ||
		a == nil && runErr == nil {
		return runErr
	}
	if a == nil {
		return &exitError{exitUndecided, runErr}
	}
	var n [3]int // by outcome
	for _, j := range a.Judge(bounds) {
		fmt.Fprintln(env.Stdout, j.Text)
		n[j.Outcome]++
	}
	switch {
	case n[report.Violated] > 0:
		return &exitError{exitFail, fmt.Errorf("--fail-if: %d violated; see above", n[report.Violated])}
	case runErr != nil:
		return &exitError{exitUndecided, runErr}
	case n[report.Undecided] > 0:
		return &exitError{exitUndecided, fmt.Errorf("--fail-if: %d undecided; see above", n[report.Undecided])}
	}
	return nil
}
