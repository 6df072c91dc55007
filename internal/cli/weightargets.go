//go:build linux

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/report"
)

type targetRows struct {
	experiment string // its folder in experiments/targets/
	rows       []string
	isPart     bool // there are other rows
}

// weighTargets measures the project's targets, or the rows that --only names. With --check, a
// missed target is an error.
func weighTargets(ctx context.Context, env Env, flags *weighFlags) error {
	if err := flags.rejectOthers(lab.Targets, lab.TargetsDir); err != nil {
		return usageError(err)
	}
	w, err := findWorkspace(env, true)
	if err != nil {
		return err
	}
	experiments, err := lab.ReadExperiments(filepath.Join(w.root, "experiments", lab.TargetsDir))
	if err != nil {
		return weighError(err)
	}
	var all []targetRows
	for _, e := range experiments {
		all = append(all, targetRows{experiment: e.Name, rows: e.Rows(flags.run.Full)})
	}
	if flags.list {
		listTargets(env, all)
		return nil
	}
	selected, err := selectRows(all, flags.run.Only)
	if err != nil {
		return usageError(err)
	}
	folder, err := flags.folder(env, w, time.Now())
	if err != nil {
		return weighError(err)
	}
	var missed []string
	var failed error
	for _, s := range selected {
		a, err := weighRows(ctx, env, s, *flags, folder.Path)
		if x, ok := errors.AsType[*exitError](err); ok && x.code == exitUsage || ctx.Err() != nil {
			folder.Discard()
			return err
		}
		failed = cmp.Or(failed, err)
		if a != nil {
			missed = append(missed, a.Missed()...)
		}
	}
	if !flags.check {
		return failed
	}
	for _, line := range missed {
		fmt.Fprintln(env.Stdout, line)
	}
	if len(missed) > 0 {
		return &exitError{exitFail, fmt.Errorf("--check: %d targets are not met; see above", len(missed))}
	}
	return failed
}

func listTargets(env Env, all []targetRows) {
	for _, e := range all {
		for _, row := range e.rows {
			fmt.Fprintf(env.Stdout, "%-12s  %s\n", e.experiment, row)
		}
	}
}

// selectRows returns the rows whose names match a pattern; without patterns all. It returns an
// error for a pattern without rows.
func selectRows(all []targetRows, patterns []string) (selected []targetRows, err error) {
	matched := make(map[string]bool)
	for _, e := range all {
		s := targetRows{experiment: e.experiment}
		for _, row := range e.rows {
			isWanted := len(patterns) == 0
			for _, pattern := range patterns {
				ok, err := path.Match(pattern, row)
				if err != nil {
					return nil, fmt.Errorf("--only: %q: %w", pattern, err)
				}
				isWanted, matched[pattern] = isWanted || ok, matched[pattern] || ok
			}
			if isWanted {
				s.rows = append(s.rows, row)
			}
		}
		if s.isPart = len(s.rows) < len(e.rows); len(s.rows) > 0 {
			selected = append(selected, s)
		}
	}
	for _, pattern := range patterns {
		if !matched[pattern] {
			return nil, fmt.Errorf("--only: no row of the targets is %q (tare weigh targets --list shows them)", pattern)
		}
	}
	if len(selected) == 0 {
		return nil, errors.New("the project has no targets")
	}
	return selected, nil
}

// weighRows measures rows of one experiment, with its results in a subfolder of dir.
func weighRows(ctx context.Context, env Env, s targetRows, flags weighFlags, dir string) (*report.Report, error) {
	words := []string{lab.TargetsDir}
	flags.run.Only, flags.run.Scenarios = nil, s.rows
	if s.isPart {
		words = append(words, "--only", strings.Join(s.rows, ","))
	}
	isSet := flags.isSet
	flags.isSet = func(name string) bool { return isSet(name) && name != "only" }
	return weighIn(ctx, env, dir, flags, filepath.Join(lab.TargetsDir, s.experiment), words)
}
