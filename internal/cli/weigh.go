package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/lab"
	"github.com/tarehq/tare/lab/report"
	"github.com/tarehq/tare/lab/yamlfile"
	loadreport "github.com/tarehq/tare/load/report"
)

// defaultExperiment is what weigh does when it is told nothing.
const defaultExperiment = "front"

type weighFlags struct {
	full, prepare, list bool
	only                []string
	blocks              int
	warmup, measure     time.Duration
	cores               []string
	connections         []int
	seed                uint64
	out                 string

	given func(name string) bool // whether a flag is on the command line
}

func weighCommand(env Env) *cobra.Command {
	var flags weighFlags
	c := &cobra.Command{
		Use:   "weigh [experiment]",
		Short: "Weigh the ways of serving an application, on this machine",
		Long: `Run an experiment, "front" if none is named: start every contender as fresh processes,
prove that they answer alike, load them in interleaved blocks, and report what a request
costs each way. This takes about five minutes.

Run it in a checkout of the project. What is needed and not there is built, or
unpacked from its Debian package into .cache/; that takes no privilege. Results go to
results/: a page to read, and files for other tools.`,
		Example: "  tare weigh\n  tare weigh fastcgi\n  tare weigh front --full\n  tare weigh front --only tare,fasthttp --connections 64",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("weigh: want one experiment, got %d: %q", len(args), args)
			}
			return nil
		},
		RunE: run(func(ctx context.Context, args []string) error {
			name := defaultExperiment
			if len(args) > 0 {
				name = args[0]
			}
			return weigh(ctx, env, name, &flags)
		}),
	}
	flags.define(c)
	return c
}

func (f *weighFlags) define(c *cobra.Command) {
	set := c.Flags()
	f.given = set.Changed
	set.BoolVar(&f.full, "full", false, "run the experiment's full trials: for front the write-up's 30s, on one core and on all,\nwith up to 5000 connections, which takes about 2 h 36 min")
	set.BoolVar(&f.prepare, "prepare", false, "only check, unpack and build what is needed")
	set.BoolVar(&f.list, "list", false, "only list the experiments")
	set.StringSliceVar(&f.only, "only", nil, "weigh only these `contenders`, such as tare,fasthttp, and the control (default all)")
	set.IntVar(&f.blocks, "blocks", 0, "`number` of blocks, each one trial of every contender; intervals need 6 (default the experiment's)")
	set.DurationVar(&f.warmup, "warmup", 0, "`time` to load a contender before measuring, such as 300ms (default the experiment's)")
	set.DurationVar(&f.measure, "measure", 0, "`time` to measure in each trial, such as 2s (default the experiment's)")
	set.StringSliceVar(&f.cores, "cores", nil, "`numbers` of cores that the servers share, such as 1 or 1,all (default the experiment's)")
	set.IntSliceVar(&f.connections, "connections", nil, "`numbers` of connections to keep busy, such as 64,1000 (default the experiment's)")
	set.Uint64Var(&f.seed, "seed", 0, "`number` that sets the order of trials; 0 is a new one (default 0)")
	set.StringVar(&f.out, "out", "", "`folder` for the results (default a new one in results/)")
}

func weigh(ctx context.Context, env Env, experiment string, flags *weighFlags) error {
	root, err := projectRoot(env.Dir)
	if err != nil {
		return usage(err)
	}
	if flags.list {
		return listExperiments(env, root)
	}
	o, err := flags.options(env, root, experiment)
	if err != nil {
		return usage(err)
	}
	if self, err := os.Executable(); err == nil {
		o.Guard = []string{self, "guard"}
	}
	p := newProgress(env.Stderr, 0)
	o.Watcher = lab.Watcher{Say: p.say, Progress: func(g lab.Progress) { showWeighing(p, g) }}
	if flags.prepare {
		r, err := lab.Prepare(ctx, o)
		p.end()
		if err == nil && !r.Complete() {
			return &exit{exitFail, errors.New("not everything could be prepared; what could not is above")}
		}
		return weighError(err)
	}
	r, dir, err := lab.Weigh(ctx, o)
	p.end()
	if r == nil {
		return weighError(err)
	}
	return showWeighed(env, r, dir, err)
}

// weighError gives what is wrong with a file, or with an option, the exit code for it.
func weighError(err error) error {
	if _, ok := errors.AsType[*yamlfile.Error](err); ok {
		return usage(err)
	}
	if _, ok := errors.AsType[*lab.UsageError](err); ok {
		return usage(err)
	}
	if errors.Is(err, context.Canceled) {
		return &exit{exitStop, errors.New("interrupted before anything was measured")}
	}
	return err
}

// showWeighed writes the report, whatever became of the run: first to the results
// folder, because the terminal may be gone.
func showWeighed(env Env, r *report.Run, dir string, err error) error {
	a := report.Analyze(r)
	kept := dir != ""
	if kept {
		if fileErr := a.WriteFiles(dir); fileErr != nil {
			r.Warnings = append(r.Warnings, fmt.Sprintf("not all results could be written: %v", fileErr))
			kept = false
		}
	}
	if textErr := a.WriteText(env.Stdout); textErr != nil {
		return textErr
	}
	if kept {
		fmt.Fprintf(env.Stdout, "Report: %s\n", filepath.Join(dir, report.PageFile))
	}
	switch {
	case errors.Is(err, context.Canceled):
		return &exit{exitStop, errors.New("interrupted: the report is of the trials until then")}
	case err != nil:
		return err
	case !r.Complete():
		return &exit{exitFail, errors.New("not everything could be compared and kept; see above")}
	}
	return nil
}

func (f *weighFlags) options(env Env, root, experiment string) (lab.Options, error) {
	o := lab.Options{Root: root, Experiment: experiment, Full: f.full, Only: f.only, Seed: f.seed, Out: f.out}
	if o.Out != "" && !filepath.IsAbs(o.Out) {
		o.Out = filepath.Join(env.Dir, o.Out)
	}
	var cores []lab.Cores
	for _, text := range f.cores {
		n, err := lab.ParseCores(text)
		if err != nil {
			return o, fmt.Errorf("--cores: %w", err)
		}
		cores = append(cores, n)
	}
	o.Adjust = func(t *lab.Trials) {
		for name, set := range map[string]func(){
			"blocks":      func() { t.Blocks = f.blocks },
			"warmup":      func() { t.Warmup = yamlfile.Duration(f.warmup) },
			"measure":     func() { t.Measure = yamlfile.Duration(f.measure) },
			"cores":       func() { t.Cores = cores },
			"connections": func() { t.Connections = f.connections },
		} {
			if f.given(name) {
				set()
			}
		}
	}
	o.Flags = f.words()
	return o, nil
}

// words are the flags that were given, for the report to repeat: all but the seed,
// which it knows, and the folder, which serves once.
func (f *weighFlags) words() (words []string) {
	add := func(name, value string) {
		if f.given(name) {
			words = append(words, "--"+name, value)
		}
	}
	if f.full {
		words = append(words, "--full")
	}
	add("only", strings.Join(f.only, ","))
	add("blocks", strconv.Itoa(f.blocks))
	add("warmup", f.warmup.String())
	add("measure", f.measure.String())
	add("cores", strings.Join(f.cores, ","))
	var connections []string
	for _, n := range f.connections {
		connections = append(connections, strconv.Itoa(n))
	}
	add("connections", strings.Join(connections, ","))
	return words
}

// projectRoot finds the folder that holds experiments and contenders.
func projectRoot(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		if isFolder(filepath.Join(at, "experiments")) && isFolder(filepath.Join(at, "contenders")) {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no experiments/ and contenders/ in %q or above: run this in a checkout of the project", dir)
		}
	}
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func listExperiments(env Env, root string) error {
	names, err := lab.Experiments(filepath.Join(root, "experiments"))
	if err != nil {
		return err
	}
	for _, name := range names {
		e, err := lab.ReadExperiment(filepath.Join(root, "experiments", name))
		if err != nil {
			return weighError(err)
		}
		fmt.Fprintf(env.Stdout, "%-12s %s\n", name, e.Question)
	}
	return nil
}

func showWeighing(p *progress, g lab.Progress) {
	p.total(g.Total)
	rate := "starting"
	if g.PerSecond > 0 {
		rate = loadreport.Count(g.PerSecond) + " requests/s"
	}
	p.set(g.Done, "block %d of %d  %d connections  %s  %s  %s left", g.Block, g.Blocks, g.Condition.Connections,
		g.Contender, rate, (g.Total - g.Done).Round(time.Second))
}
