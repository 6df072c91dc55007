//go:build linux

package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/report"
)

func listExperiments(env Env) error {
	w, err := findWorkspace(env, true)
	if err != nil {
		return err
	}
	all, err := experiments(w.root)
	if err != nil {
		return weighError(err)
	}
	wide := len(allExperiments)
	for _, e := range all {
		wide = max(wide, len(e.Name))
	}
	for _, e := range all {
		what := e.Question
		if what == "" {
			what = e.Title
		}
		if e.Kind == lab.Benchmarks {
			what += " (Go benchmarks)"
		}
		fmt.Fprintf(env.Stdout, "%-*s  %s\n", wide, e.Name, what)
	}
	fmt.Fprintf(env.Stdout, "%-*s  Which of this project's targets are met?\n", wide, lab.TargetsDir)
	fmt.Fprintf(env.Stdout, "%-*s  All experiments that repeat a write-up, one after another: %s\n", wide,
		allExperiments, namesOf(writeUps(all)))
	return nil
}

func writeUps(all []*lab.Experiment) []*lab.Experiment {
	return slices.DeleteFunc(slices.Clone(all), func(e *lab.Experiment) bool { return e.Source == "" })
}

func namesOf(all []*lab.Experiment) string {
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = e.Name
	}
	return strings.Join(names, ", ")
}

func experiments(root string) (all []*lab.Experiment, err error) {
	dir := filepath.Join(root, "experiments")
	if all, err = lab.ReadExperiments(dir); err == nil && len(all) == 0 {
		err = usageError(fmt.Errorf("no experiments in %q", dir))
	}
	return all, err
}

// weighAll runs all experiments that repeat a write-up. It continues after one that fails, but not
// after an interrupt.
func weighAll(ctx context.Context, env Env, flags *weighFlags) error {
	if err := flags.checkForAll(); err != nil {
		return usageError(err)
	}
	w, err := findWorkspace(env, true)
	if err != nil {
		return err
	}
	all, err := experiments(w.root)
	if err != nil {
		return weighError(err)
	}
	if all = writeUps(all); len(all) == 0 {
		return usageError(errors.New("no experiment repeats a write-up: name an experiment"))
	}
	s := &series{started: time.Now(), of: len(all)}
	folder, err := flags.folder(env, w, s.started, seriesFile)
	if err != nil {
		return weighError(err)
	}
	s.dir = folder.Path
	for i, e := range all {
		if !flags.prepare {
			fmt.Fprintf(env.Stdout, "== %s (%d of %d): %s\n\n", e.Name, i+1, len(all), e.Title)
		}
		began := time.Now()
		of := *flags
		if e.Kind == lab.Benchmarks {
			if dropped := of.dropServerFlags(); len(dropped) > 0 {
				fmt.Fprintf(env.Stderr, "%s runs Go benchmarks and ignores %s\n", e.Name, strings.Join(dropped, ", "))
			}
		}
		a, err := weighIn(ctx, env, s.dir, of, e.Name, []string{e.Name})
		if a != nil {
			fmt.Fprintln(env.Stdout)
		}
		if x, ok := errors.AsType[*exitError](err); ok && x.code == exitUsage && i == 0 {
			folder.Discard()
			return err // the same error for every experiment
		}
		s.add(e, a, err, time.Since(began))
		if ctx.Err() != nil {
			break
		}
	}
	return s.end(ctx, env, flags.prepare)
}

func (f *weighFlags) checkForAll() error {
	if err := f.own.rejectFor(allExperiments); err != nil {
		return err
	}
	if f.isSet("fail-if") || len(f.run.Only)+len(f.run.Scenarios) > 0 {
		return errors.New("--only, --scenarios and --fail-if apply to one experiment, not to all")
	}
	return nil
}

func (f *weighFlags) outDir(env Env) string {
	if f.out == "" {
		return ""
	}
	return env.path(f.out)
}

// folder makes the folder for the results of several experiments, unless they are only prepared.
func (f *weighFlags) folder(env Env, w *workspace, started time.Time, reports ...string) (lab.Folder, error) {
	if f.prepare {
		return lab.Folder{}, nil
	}
	o := lab.Options{Results: w.results, Out: f.outDir(env), Reports: reports}
	return o.NewFolder(started)
}

// weighIn runs one of several experiments with its results in a subfolder of dir. It returns nil
// results if nothing was started.
func weighIn(ctx context.Context, env Env, dir string, flags weighFlags, experiment string,
	words []string) (*report.Report, error) {
	if dir != "" {
		flags.out = filepath.Join(dir, filepath.Base(experiment))
	}
	o, err := flags.options(env, experiment, nil, words)
	if err != nil {
		return nil, usageError(err)
	}
	return weighOne(ctx, env, o, &flags)
}

// dropServerFlags removes the flags that do not apply to Go benchmarks and returns their names.
func (f *weighFlags) dropServerFlags() (dropped []string) {
	isSet, others := f.isSet, othersFlags(lab.Benchmarks)
	for _, name := range others {
		if isSet(name) {
			dropped = append(dropped, "--"+name)
		}
	}
	f.isSet = func(name string) bool { return isSet(name) && !slices.Contains(others, name) }
	f.generator = generatorFlags{}
	return dropped
}
