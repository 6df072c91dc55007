//go:build linux

package cli

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/report"
)

// bounds parses --fail-if, which requires two builds.
func (f *ownFlags) bounds(s *lab.Subject) ([]report.Bound, error) {
	if !f.isSet("fail-if") {
		return nil, nil
	}
	if s == nil || s.Experiment.Build == "" {
		return nil, errors.New("--fail-if requires two builds: set --a and --b")
	}
	bounds, err := report.ParseBounds(f.failIf)
	if err != nil {
		return nil, fmt.Errorf("--fail-if: %w", err)
	}
	return bounds, nil
}

// judge prints whether each bound is broken, and returns an error if one is. runErr, the error of
// the run, takes precedence.
func judge(env Env, a *report.Report, bounds []report.Bound, runErr error) error {
	all, err := a.Judge(bounds)
	if err != nil {
		fmt.Fprintf(env.Stdout, "--fail-if: %v\n", err)
		return cmp.Or(runErr, error(&exitError{exitFail, errors.New("--fail-if: cannot check the bounds; see above")}))
	}
	broken := 0
	for _, j := range all {
		fmt.Fprintln(env.Stdout, j.Text)
		if j.Broken {
			broken++
		}
	}
	if runErr != nil || broken == 0 {
		return runErr
	}
	return &exitError{exitFail, fmt.Errorf("--fail-if: %d of %d bounds broken; see above", broken, len(all))}
}
