package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/lab"
	"github.com/tarehq/tare/lab/report"
	"github.com/tarehq/tare/lab/trial"
	"github.com/tarehq/tare/lab/yamlfile"
	loadreport "github.com/tarehq/tare/load/report"
)

// defaultExperiment is what weigh does when it is told nothing.
const defaultExperiment = "front"

// allExperiments is the name that stands for all that repeat a write-up.
const allExperiments = "all"

type weighFlags struct {
	full, quick, prepare, list, why, tune bool
	only                                  []string
	blocks                                int
	warmup, measure                       time.Duration
	until                                 float64 // percent
	within                                time.Duration
	cores                                 []string
	connections                           []int
	rate                                  string
	sweep                                 []string
	seed                                  uint64
	out                                   string
	own                                   ownFlags

	isSet func(name string) bool // whether a flag is on the command line
}

func weighCommand(env Env) *cobra.Command {
	var flags weighFlags
	c := &cobra.Command{
		Use:   "weigh [experiment | all | file.yaml | -- command]",
		Short: "Weigh the ways of serving an application, on this machine",
		Long: `Run an experiment, "front" if none is named: start every contender as fresh processes,
prove that they answer alike, load them in turns, side by side, and report what a request
costs each way. This takes about eight minutes; "all" repeats all write-ups, one after another.

Your own application is weighed alone and behind nginx, by TCP and by unix socket, when its
command comes after --. Where it is to listen stands in the command, or in --env, as {addr},
which is host:port, as {port}, or as {socket}. It runs in the current folder, without a shell,
and has to stay in the foreground. With --a and --b two builds of it are compared.

The experiments are run in a checkout of the project, your own application anywhere. What is
needed and not there is built, or unpacked from its Debian package into .cache/ of the
checkout, or else into your cache folder; that takes no privilege. Results go to results/: a
page to read, and files for other tools.`,
		Example: `  tare weigh
  tare weigh fastcgi
  tare weigh front --full
  tare weigh front --only tare,fasthttp --connections 64
  tare weigh -- ./server -addr {addr}
  tare weigh --env PORT={port} --path /users/1 -- node server.js
  tare weigh --a './old -addr {addr}' --b './new -addr {addr}' --fail-if 'cpu>+3%,errors>0'
  tare weigh --save app.yaml -- ./server -addr {addr} -unix {socket} && tare weigh app.yaml`,
		Args: cobra.ArbitraryArgs,
	}
	c.RunE = run(func(ctx context.Context, args []string) error {
		named, command := args, []string(nil)
		if dash := c.ArgsLenAtDash(); dash >= 0 {
			named, command = args[:dash], args[dash:]
			if len(command) == 0 && !flags.own.builds() {
				return usageError(errors.New("weigh: want the command of your application after --"))
			}
		}
		return weigh(ctx, env, named, command, &flags)
	})
	flags.define(c)
	return c
}

func (f *weighFlags) define(c *cobra.Command) {
	set := c.Flags()
	f.isSet = set.Changed
	set.BoolVar(&f.quick, "quick", false, "run the experiment's quick trials, as is done without --full, too")
	set.BoolVar(&f.full, "full", false, "run the experiment's full trials: for front the write-up's 30s, on one core and on all,\nwith up to 5000 connections, and sweeps, which takes more than three hours")
	set.BoolVar(&f.prepare, "prepare", false, "only check, unpack and build what is needed")
	set.BoolVar(&f.why, "why", false, "test the explanations: change the setting that is said to be the cause, and see whether the difference goes")
	set.BoolVar(&f.tune, "tune", false, "for the run, give the kernel those of the write-up's settings that matter; they are put back. Needs privilege")
	set.BoolVar(&f.list, "list", false, "only list the experiments, with what each asks")
	set.StringSliceVar(&f.only, "only", nil, "weigh only these `contenders`, such as tare,fasthttp, and the control (default all)")
	set.IntVar(&f.blocks, "blocks", 0, "`number` of blocks, in each of which every contender is started once; intervals need 5 (default the experiment's)")
	set.Float64Var(&f.until, "until", 0, "add blocks until intervals are within that many `percent` of their ratios (default none are added)")
	set.DurationVar(&f.within, "within", lab.DefaultWithin, "with --until: `time` after which no block begins")
	set.DurationVar(&f.warmup, "warmup", 0, "`time` to load a contender before measuring, such as 300ms (default the experiment's)")
	set.DurationVar(&f.measure, "measure", 0, "`time` to measure each contender in a block, such as 1s (default the experiment's)")
	set.StringSliceVar(&f.cores, "cores", nil, "`numbers` of cores that the servers share, such as 1 or 1,all (default the experiment's)")
	set.IntSliceVar(&f.connections, "connections", nil, "`numbers` of connections to keep busy, such as 64,1000 (default the experiment's)")
	set.StringVar(&f.rate, "rate", "", "`rate` of more trials, the same for all contenders, in which latency means something: a share of what the\nslowest can serve, such as 50%, requests a second, or off (default the experiment's)")
	set.StringSliceVar(&f.sweep, "sweep", nil, "also vary these `axes` of the experiment's, written --sweep=connections,workers or --sweep=gomaxprocs;\nof the bare flag all; as is done with --full unless it is --sweep=off")
	set.Lookup("sweep").NoOptDefVal = lab.SweepAll
	set.Uint64Var(&f.seed, "seed", 0, "`number` that sets the order of trials; 0 is a new one (default 0)")
	set.StringVar(&f.out, "out", "", "`folder` for the results (default a new one in results/)")
	f.own.define(set)
}

// weigh carries out the command: named are the words before --, command those after it.
func weigh(ctx context.Context, env Env, named, command []string, flags *weighFlags) error {
	if len(named) > 1 {
		return usageError(fmt.Errorf("weigh: want one experiment, got %d: %q; the command of your own application comes after --", len(named), named))
	}
	if flags.full && flags.quick {
		return usageError(errors.New("--quick and --full: want one of the two"))
	}
	if flags.list {
		return listExperiments(env)
	}
	if len(named) == 1 && named[0] == allExperiments {
		return weighAll(ctx, env, flags)
	}
	if len(command) == 0 && namesBenchmarks(env, named) {
		if err := flags.checkForBenchmarks(named[0]); err != nil {
			return usageError(err)
		}
		_, err := weighBenchmarks(ctx, env, named[0], flags)
		return err
	}
	o, err := flags.target(env, named, command)
	if err != nil {
		return usageError(err)
	}
	if flags.own.save != "" {
		return saveSubject(env, o.Subject, flags.own.save)
	}
	bounds, err := flags.own.bounds(o.Subject)
	if err != nil {
		return usageError(err)
	}
	a, err := weighOne(ctx, env, o, flags.prepare)
	if len(bounds) > 0 && a != nil {
		return judge(env, a, bounds, err)
	}
	return err
}

// target is what the command line says is to be weighed, and how.
func (f *weighFlags) target(env Env, named, command []string) (o lab.Options, err error) {
	if len(command) > 0 || f.own.builds() {
		if len(named) > 0 {
			return o, fmt.Errorf("weigh: %q and an application of your own: want one of the two", named[0])
		}
		s, err := f.own.subject(env, command)
		if err != nil {
			return o, err
		}
		if o, err = f.options(env, "", s, f.own.commandLine()); len(command) > 0 {
			o.Tail = append([]string{"--"}, command...)
		}
		return o, err
	}
	name := defaultExperiment
	if len(named) > 0 {
		name = named[0]
	}
	if err := f.own.rejectFor(fmt.Sprintf("%q", name)); err != nil {
		return o, err
	}
	if ext := filepath.Ext(name); ext != ".yaml" && ext != ".yml" {
		return f.options(env, name, nil, []string{name})
	}
	s, err := lab.ReadSubject(env.path(name))
	if err != nil {
		return o, err
	}
	words := []string{name}
	if f.isSet("fail-if") {
		words = append(words, "--fail-if", f.own.failIf)
	}
	return f.options(env, "", s, words)
}

// weighOne runs what the options say, or prepares it, and shows what came of it.
func weighOne(ctx context.Context, env Env, o lab.Options, prepare bool) (*report.Analysis, error) {
	if self, err := os.Executable(); err == nil {
		o.Guard = []string{self, "guard"}
	}
	p := newProgress(env.Stderr, 0)
	o.Watcher = lab.Watcher{Say: p.say, Progress: func(g lab.Progress) { showWeighing(p, g) }}
	if prepare {
		r, err := lab.Prepare(ctx, o)
		p.end()
		if err == nil && !r.Complete() {
			return nil, &exitError{exitFail, errors.New("not everything could be prepared; what could not is above")}
		}
		return nil, weighError(err)
	}
	r, dir, err := lab.Weigh(ctx, o)
	p.end()
	if r == nil {
		return nil, weighError(err)
	}
	return showWeighed(env, r, dir, err)
}

// weighError gives what is wrong with a file, or with an option, the exit code for it.
func weighError(err error) error {
	if _, ok := errors.AsType[*yamlfile.Error](err); ok {
		return usageError(err)
	}
	if _, ok := errors.AsType[*lab.UsageError](err); ok {
		return usageError(err)
	}
	if errors.Is(err, context.Canceled) {
		return &exitError{exitStop, errors.New("interrupted before anything was measured")}
	}
	return err
}

// showWeighed writes the report, whatever became of the run.
func showWeighed(env Env, r *report.Run, dir string, err error) (*report.Analysis, error) {
	a := report.Analyze(r)
	return a, showResults(env, a, &r.Warnings, dir, err)
}

// results is what was measured, compared.
type results interface {
	WriteFiles(dir string) error
	WriteText(w io.Writer) error
	Verdict() string
	Complete() bool
}

// showResults writes a report: first to the results folder, because the terminal may be
// gone. err is what became of the run.
func showResults(env Env, a results, warnings *[]string, dir string, err error) error {
	kept := dir != ""
	if kept {
		if fileErr := a.WriteFiles(dir); fileErr != nil {
			*warnings = append(*warnings, fmt.Sprintf("not all results could be written: %v", fileErr))
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
		return &exitError{exitStop, errors.New("interrupted: the report is of the trials until then")}
	case err != nil:
		return err
	case !a.Complete():
		return &exitError{exitFail, errors.New("not everything could be compared and kept; see above")}
	}
	return nil
}

// options are those of an experiment of the project, or of a subject. words are what named it.
func (f *weighFlags) options(env Env, experiment string, s *lab.Subject, words []string) (o lab.Options, err error) {
	o = lab.Options{Experiment: experiment, Why: f.why, Tune: f.tune, Subject: s, Full: f.full, Sweep: f.sweep, Only: f.only, Seed: f.seed, Out: f.out,
		Until: lab.Until{Width: f.until / 100, Within: f.within}}
	if o.Root, o.Cache, err = resultFolders(env, s); err != nil {
		return o, err
	}
	if o.Out != "" {
		o.Out = env.path(o.Out)
	}
	var cores []lab.Cores
	for _, text := range f.cores {
		n, err := lab.ParseCores(text)
		if err != nil {
			return o, fmt.Errorf("--cores: %w", err)
		}
		cores = append(cores, n)
	}
	var rate lab.Rate
	if f.isSet("rate") {
		if rate, err = lab.ParseRate(f.rate); err != nil {
			return o, fmt.Errorf("--rate: %w", err)
		}
	}
	if err = lab.CheckSweep(f.sweep); err != nil {
		return o, fmt.Errorf("--sweep: %w", err)
	}
	o.Adjust = func(t *lab.Trials) {
		for name, set := range map[string]func(){
			"blocks":      func() { t.Blocks = f.blocks },
			"warmup":      func() { t.Warmup = yamlfile.Duration(f.warmup) },
			"measure":     func() { t.Measure, t.Rate.Measure = yamlfile.Duration(f.measure), 0 },
			"cores":       func() { t.Cores = cores },
			"connections": func() { t.Connections = f.connections },
			"rate":        func() { t.Rate.Share, t.Rate.PerSecond = rate.Share, rate.PerSecond },
		} {
			if f.isSet(name) {
				set()
			}
		}
	}
	o.Flags = append(words, f.commandLine()...)
	return o, nil
}

// place returns the folder that holds results, and the one for what is built and unpacked:
// the project's, or for a subject that is weighed elsewhere the current folder, and the
// user's cache.
func resultFolders(env Env, s *lab.Subject) (root, cache string, err error) {
	root, err = projectRoot(env.Dir)
	if err == nil || s == nil {
		return root, "", err
	}
	cache, err = os.UserCacheDir()
	if err != nil {
		return "", "", fmt.Errorf("there is no folder for what has to be unpacked: %w", err)
	}
	return env.Dir, filepath.Join(cache, "tare"), nil
}

// words are the flags that were given, for the report to repeat: all but the seed,
// which it knows, and the folder, which serves once.
func (f *weighFlags) commandLine() (words []string) {
	add := func(name, value string) {
		if f.isSet(name) {
			words = append(words, "--"+name, value)
		}
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{{"why", f.why}, {"tune", f.tune}, {"full", f.full}, {"quick", f.quick}} {
		if flag.set {
			words = append(words, "--"+flag.name)
		}
	}
	add("only", strings.Join(f.only, ","))
	add("blocks", strconv.Itoa(f.blocks))
	add("until", strconv.FormatFloat(f.until, 'g', -1, 64))
	add("within", f.within.String())
	add("warmup", f.warmup.String())
	add("measure", f.measure.String())
	add("cores", strings.Join(f.cores, ","))
	var connections []string
	for _, n := range f.connections {
		connections = append(connections, strconv.Itoa(n))
	}
	add("connections", strings.Join(connections, ","))
	add("rate", f.rate)
	if f.isSet("sweep") {
		words = append(words, "--sweep="+strings.Join(f.sweep, ","))
	}
	return words
}

// projectRoot finds the folder that holds experiments and contenders.
func projectRoot(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		if isFolder(filepath.Join(at, "experiments")) && isFolder(filepath.Join(at, "contenders")) {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no experiments/ and contenders/ in %q or above: run this in a checkout of the project, or give the command of your own application after --", dir)
		}
	}
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func showWeighing(p *progress, g lab.Progress) {
	p.total(g.Total)
	rate := "starting"
	if g.PerSecond > 0 {
		rate = loadreport.Count(g.PerSecond) + " requests/s"
	}
	where := fmt.Sprintf("block %d of %d", g.Block, g.Blocks)
	if g.Block == 0 {
		where = "counting"
	}
	p.set(g.Done, "%s  %s  %s  %s  %s left", where, describeCondition(g.Condition), g.Contender, rate, (g.Total - g.Done).Round(time.Second))
}

// underText says in few words under what a trial is made.
func describeCondition(c trial.Condition) string {
	text := fmt.Sprintf("%d connections", c.Connections)
	if !c.Saturated() {
		text += fmt.Sprintf(" at %s/s", loadreport.Count(c.Rate))
	}
	if c.Procs > 0 {
		text += fmt.Sprintf("  GOMAXPROCS %d", c.Procs)
	}
	if c.Workers > 0 {
		text += fmt.Sprintf("  %d workers", c.Workers)
	}
	return text
}
