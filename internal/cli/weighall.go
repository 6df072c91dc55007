package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tarehq/tare/lab"
	"github.com/tarehq/tare/lab/gobench"
	"github.com/tarehq/tare/lab/report"
)

// listExperiments names each experiment of the project, with what it asks.
func listExperiments(env Env) error {
	root, err := projectRoot(env.Dir)
	if err != nil {
		return usage(err)
	}
	all, err := experiments(root)
	if err != nil {
		return weighError(err)
	}
	wide := len(allExperiments)
	for _, e := range all {
		wide = max(wide, len(e.name))
	}
	for _, e := range all {
		what := e.question
		if what == "" {
			what = e.title
		}
		fmt.Fprintf(env.Stdout, "%-*s  %s\n", wide, e.name, what)
	}
	fmt.Fprintf(env.Stdout, "%-*s  All of them, one after another, and a summary.\n", wide, allExperiments)
	return nil
}

// listed is an experiment of the project.
type listed struct {
	name, title, question string
	benchmarks            bool // of Go
}

// experiments reads all experiments of the project, in the order of their names.
func experiments(root string) (all []listed, err error) {
	dir := filepath.Join(root, "experiments")
	names, err := lab.Experiments(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		e, err := lab.ReadExperiment(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		all = append(all, listed{name, e.Title, e.Question, false})
	}
	if names, err = gobench.Experiments(dir); err != nil {
		return nil, err
	}
	for _, name := range names {
		e, err := gobench.ReadExperiment(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		all = append(all, listed{name, e.Title, e.Question, true})
	}
	slices.SortFunc(all, func(a, b listed) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// weighed is what became of one experiment of several.
type weighed struct {
	name     string
	analysis results // nil if nothing was begun
	err      error
}

// weighAll runs all experiments of the project. One that fails does not keep the next from
// being run, being interrupted does.
func weighAll(ctx context.Context, env Env, flags *weighFlags) error {
	if err := flags.own.none(allExperiments); err != nil {
		return usage(err)
	}
	if flags.own.builds() || flags.given("fail-if") || len(flags.only) > 0 {
		return usage(errors.New("--only, --a, --b and --fail-if are for one experiment, not for all"))
	}
	root, err := projectRoot(env.Dir)
	if err != nil {
		return usage(err)
	}
	all, err := experiments(root)
	if err != nil {
		return weighError(err)
	}
	var done []weighed
	for i, e := range all {
		if !flags.prepare {
			fmt.Fprintf(env.Stdout, "== %s (%d of %d): %s\n\n", e.name, i+1, len(all), e.title)
		}
		a, err := weighListed(ctx, env, e, *flags)
		if a != nil {
			fmt.Fprintln(env.Stdout)
		}
		if x, ok := errors.AsType[*exit](err); ok && x.code == exitUsage {
			return err // it would be so for each
		}
		done = append(done, weighed{e.name, a, err})
		if ctx.Err() != nil {
			break
		}
	}
	return summary(ctx, env, done, len(all), flags.prepare)
}

// weighListed runs one of the experiments. The results are nil if nothing was begun.
func weighListed(ctx context.Context, env Env, e listed, flags weighFlags) (results, error) {
	if flags.out != "" {
		flags.out = filepath.Join(flags.out, e.name)
	}
	if e.benchmarks {
		a, err := weighBenchmarks(ctx, env, e.name, &flags)
		if a == nil {
			return nil, err
		}
		return a, err
	}
	o, err := flags.options(env, e.name, nil, []string{e.name})
	if err != nil {
		return nil, usage(err)
	}
	a, err := weighOne(ctx, env, o, flags.prepare)
	if a == nil {
		return nil, err
	}
	return a, err
}

// summary says of each experiment what it showed, or why it did not.
func summary(ctx context.Context, env Env, done []weighed, of int, prepared bool) error {
	failed := 0
	if !prepared {
		fmt.Fprintf(env.Stdout, "== summary\n\n")
	}
	for _, d := range done {
		if d.analysis != nil {
			fmt.Fprintf(env.Stdout, "%s\n\n", report.Wrap(d.name+": "+d.analysis.Verdict()))
		}
		if d.err != nil {
			failed++
			fmt.Fprintf(env.Stderr, "%s: %v\n", d.name, d.err)
		}
	}
	switch {
	case ctx.Err() != nil:
		return &exit{exitStop, fmt.Errorf("interrupted in experiment %d of %d", len(done), of)}
	case failed > 0:
		return &exit{exitFail, fmt.Errorf("%d of %d experiments are not complete; see above", failed, of)}
	}
	return nil
}
