//go:build linux

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/benchmark"
	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// kindOf returns the kind of the experiment that the arguments name; lab.Comparison if they name
// none.
func kindOf(env Env, named []string) lab.Kind {
	if len(named) != 1 || filepath.Ext(named[0]) != "" {
		return lab.Comparison
	}
	w, err := findWorkspace(env, true)
	if err != nil {
		return lab.Comparison
	}
	return lab.KindOf(filepath.Join(w.root, "experiments", named[0]))
}

// serverFlags lists the flags that do not apply to Go benchmarks.
func serverFlags() []string {
	return []string{"warmup", "connections", "scenarios", "rate", "sweep", "tune", "why", "profile", "until", "within",
		"on", "address", "agent-program"}
}

// checkForBenchmarks rejects flags that do not apply to Go benchmarks.
func (f *weighFlags) checkForBenchmarks(name string) error {
	for _, flag := range serverFlags() {
		if f.isSet(flag) {
			return fmt.Errorf("--%s does not apply to %s, which runs Go benchmarks", flag, name)
		}
	}
	return f.own.rejectFor(fmt.Sprintf("%q", name))
}

// dropServerFlags removes those flags and returns their names.
func (f *weighFlags) dropServerFlags() (dropped []string) {
	isSet := f.isSet
	for _, name := range serverFlags() {
		if isSet(name) {
			dropped = append(dropped, "--"+name)
		}
	}
	f.why, f.profile, f.tune = false, false, false
	f.isSet = func(name string) bool { return isSet(name) && !slices.Contains(serverFlags(), name) }
	return dropped
}

// weighBenchmarks runs or prepares an experiment of Go benchmarks and shows the outcome. The
// analysis is nil if nothing was started.
func weighBenchmarks(ctx context.Context, env Env, name string, flags *weighFlags) (*report.Report, error) {
	return measureBenchmarks(ctx, env, name, append([]string{name}, flags.commandLine()...), flags)
}

// measureBenchmarks runs or prepares an experiment of Go benchmarks. words are the arguments that
// the report repeats.
func measureBenchmarks(ctx context.Context, env Env, name string, words []string,
	flags *weighFlags) (*report.Report, error) {
	w, err := findWorkspace(env, true)
	if err != nil {
		return nil, err
	}
	o := benchmark.Options{Root: w.root, Results: w.results, Tools: w.tools, Experiment: name,
		Full: flags.full, Only: flags.only, Seed: flags.seed, Flags: words}
	if flags.out != "" {
		o.Out = env.path(flags.out)
	}
	if o.Adjust, err = flags.adjustBenchmarks(); err != nil {
		return nil, usageError(err)
	}
	if self, err := os.Executable(); err == nil {
		o.Guard = []string{self, "guard"}
	}
	p := newProgress(env.Stderr, 0)
	o.Logf = p.print
	o.Progress = func(g benchmark.Progress) {
		p.total(g.Total)
		p.set(g.Done, "block %d of %d  %s at GOMAXPROCS %d  %s left", g.Block, g.Blocks, g.Benchmark, g.Procs,
			(g.Total - g.Done).Round(time.Second))
	}
	if flags.prepare {
		r, err := benchmark.Prepare(ctx, o)
		p.end()
		if err == nil && !r.Complete() {
			return nil, &exitError{exitFail, errors.New("the preparation is incomplete; see above")}
		}
		return nil, weighError(err)
	}
	r, dir, err := benchmark.Weigh(ctx, o)
	p.end()
	if r == nil {
		return nil, weighError(err)
	}
	return showWeighed(env, r, dir, flags.details, err)
}

// adjustBenchmarks returns a function that applies flags to the trials.
func (f *weighFlags) adjustBenchmarks() (func(*benchmark.Trials), error) {
	var procs []lab.Cores
	for _, text := range f.cores {
		n, err := lab.ParseCores(text)
		if err != nil {
			return nil, fmt.Errorf("--cores: %w", err)
		}
		procs = append(procs, n)
	}
	return func(t *benchmark.Trials) {
		if f.isSet("blocks") {
			t.SetBlocks(f.blocks)
		}
		if f.isSet("measure") {
			t.Time = yamlfile.Duration(f.measure)
		}
		if f.isSet("cores") {
			t.Procs = procs
		}
	}, nil
}
