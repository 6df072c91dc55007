//go:build linux

package cli

import (
	"errors"
	"fmt"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/load"
)

// bounds parses --fail-if, which requires two builds and trials that can decide it.
func (f *weighFlags) bounds(o *lab.Options) (g load.Goal, err error) {
	if !f.isSet("fail-if") {
		return g, nil
	}
	if o.Own == nil || o.Own.Build == "" {
		return g, errors.New("--fail-if requires two builds: set --a and --b")
	}
	if g, err = load.ParseGoal(f.own.failIf); err == nil {
		trials := o.Trials(o.Own)
		err = report.CheckBounds(g, o.Until.Most(trials.Blocks), trials.Rate.IsSet())
	}
	if err != nil {
		return g, fmt.Errorf("--fail-if: %w", err)
	}
	return g, nil
}

// judge prints whether the bounds hold. It returns nil if all do, and an error with exitFail if one
// is violated. Otherwise the error has exitUndecided, also if the run failed. runErr is the error
// of the run, and a is nil if nothing was measured.
func judge(env Env, a *report.Report, bounds load.Goal, runErr error) error {
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
	return outcomesError(n, runErr)
}
