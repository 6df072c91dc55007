//go:build linux

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/yamlfile"
	loadreport "github.com/tarehq/tare/load/report"
)

const defaultExperiment = "front"

const allExperiments = "all" // name for all experiments that repeat a write-up

type weighFlags struct {
	quick, prepare, list, details, check bool

	run             lab.Options // what flags set as it is
	blocks          int
	warmup, measure time.Duration
	until           float64 // percent
	cores           []string
	connections     []int
	rate            string
	out             string
	own             ownFlags
	generator       generatorFlags

	set   *pflag.FlagSet
	isSet func(name string) bool // reports whether a flag is on the command line, and applies
}

func weighCommand(env Env) *cobra.Command {
	var flags weighFlags
	c := &cobra.Command{
		Use:   "weigh [experiment | all | targets | file.yaml | -- command]",
		Short: "Compare the ways of serving an application on this machine",
		Long: `Run an experiment (default "front"): start every contender as new processes, verify that their
responses are equal, load them in turns, side by side, and report what a request costs with each.
This takes about eight minutes. "all" repeats all write-ups, one after another, and "targets" compares
this project's figures with its targets.

To measure your own application, alone and behind nginx and tare's front by TCP and by unix
socket, pass its command after --. The placeholder {addr} (host:port), {port} or {socket}, in the
command or in --env, is replaced by the address to listen on. The command runs in the current
folder, without a shell, and must stay in the foreground. --a and --b compare two builds of it.

In a checkout of the project, its experiments and contenders are used. Elsewhere, tare unpacks its
own into your cache folder. Missing software is built, or unpacked from its Debian package into the
checkout's .cache/ or your cache folder, without privileges. Contenders whose software is
unavailable are left out, with the command that installs it. The results folder in results/ holds
an HTML report and files for other tools.`,
		Example: `  tare weigh
  tare weigh fastcgi
  tare weigh front --full
  tare weigh front --only tare,fasthttp --connections 64
  tare weigh targets --only hello-64 --check
  tare weigh --on lab2 -- ./server -addr {addr}
  tare weigh --env PORT={port} --path /users/1 -- node server.js
  tare weigh --a './old -addr {addr}' --b './new -addr {addr}' --fail-if 'cpu>+3%,errors>0'
  tare weigh --save app.yaml -- ./server -addr {addr} -unix {socket} && tare weigh app.yaml`,
		Args: cobra.ArbitraryArgs,
	}
	c.RunE = run(func(ctx context.Context, args []string) error {
		var command []string
		if dash := c.ArgsLenAtDash(); dash >= 0 {
			args, command = args[:dash], args[dash:]
			if len(command) == 0 && !flags.own.builds() {
				return withCommand("weigh", usageError(errors.New("missing command of your application after --")))
			}
		}
		return withCommand("weigh", weigh(ctx, env, args, command, &flags))
	})
	flags.define(c)
	return c
}

func (f *weighFlags) define(c *cobra.Command) {
	set := c.Flags()
	f.set, f.isSet = set, set.Changed
	set.BoolVar(&f.quick, "quick", false, "run the experiment's quick trials (the default)")
	set.BoolVar(&f.run.Full, "full", false, "run the experiment's full trials: for front the write-up's 30s, on one core and on all,\nwith up to 5000 connections; takes more than three hours")
	set.BoolVar(&f.prepare, "prepare", false, "only check, unpack and build the required software")
	set.BoolVar(&f.details, "details", false, "print all tables, differences and notes, which the report also has, not one screen")
	set.BoolVar(&f.list, "list", false, "only list the experiments and their questions, or the rows of targets")
	set.BoolVar(&f.check, "check", false, "with targets, exit with 1 if a required target is missed or cannot be measured")
	set.StringSliceVar(&f.run.Only, "only", nil,
		"run only these `CONTENDERS`, such as tare,fasthttp, and the control; or these rows of targets (default all)")
	set.StringSliceVar(&f.run.Scenarios, "scenarios", nil,
		"of an experiment with scenarios, such as tls, run only those with these `NAMES` (default all)")
	set.IntVar(&f.blocks, "blocks", 0, "run `N` blocks, each of which starts every contender once; intervals need 5 (default the experiment's)")
	set.Float64Var(&f.until, "until", 0, "add blocks until intervals are within `PERCENT` of their ratios (default none)")
	set.DurationVar(&f.run.Until.Within, "within", lab.DefaultWithin, "with --until, start no block after `TIME`")
	set.DurationVar(&f.warmup, "warmup", 0, "load a contender for `TIME` before measuring, such as 300ms (default the experiment's)")
	set.DurationVar(&f.measure, "measure", 0,
		"measure each contender for `TIME` per block, such as 1s (default the experiment's)")
	set.StringSliceVar(&f.cores, "cores", nil,
		"run the servers on these `NUMBERS` of shared cores, such as 1 or 1,all (default the experiment's)")
	set.IntSliceVar(&f.connections, "connections", nil,
		"keep these `NUMBERS` of connections busy, such as 64,1000 (default the experiment's)")
	set.StringVar(&f.rate, "rate", "", "add trials at the same `RATE` for all contenders, where latencies are comparable: a share of what the\nslowest can serve, such as 50%, a number of requests/s, or off (default the experiment's)")
	set.Uint64Var(&f.run.Seed, "seed", 0, "order the trials by this `SEED`; 0 is a new one (default 0)")
	set.StringVar(&f.out, "out", "", "write the results to `DIR` (default a new folder in results/)")
	f.own.define(set)
	f.generator.define(set)
}

// weigh runs the command: named are the arguments before --, command those after it.
func weigh(ctx context.Context, env Env, named, command []string, flags *weighFlags) error {
	err := checkFlags(flags.set, []requirement{{"address agent-program", "on"}, {"within", "until"}},
		[]exclusion{{"quick", "full", ""}})
	if err == nil {
		err = checkAboveZero(flags.set, "until", "within")
	}
	name := strings.Join(named, " ")
	switch {
	case err != nil:
		return usageError(err)
	case len(named) > 1:
		return usageError(fmt.Errorf("want one experiment, got %d: %q (the command of your own application goes after --)",
			len(named), named))
	case len(named) == 1 && name == "":
		return usageError(errors.New("the name of the experiment is empty"))
	case name == lab.TargetsDir && len(command) == 0:
		return weighTargets(ctx, env, flags)
	case flags.list:
		return listExperiments(env)
	case name == allExperiments:
		return weighAll(ctx, env, flags)
	case flags.check:
		return usageError(fmt.Errorf("--check applies to %s", lab.TargetsDir))
	}
	o, err := flags.target(env, name, command)
	if err != nil {
		return usageError(withFlags(err))
	}
	if o.Own == nil {
		e, err := lab.ReadExperiment(filepath.Join(o.Root, "experiments", o.Experiment))
		if err != nil {
			return weighError(err)
		}
		if err := flags.rejectOthers(e.Kind, e.Name); err != nil {
			return usageError(err)
		}
	}
	if flags.own.save != "" {
		return saveOwn(env, o.Own, flags.own.save)
	}
	bounds, err := flags.bounds(&o)
	if err != nil {
		return usageError(err)
	}
	a, err := weighOne(ctx, env, o, flags)
	if len(bounds.Bounds) > 0 {
		return judge(env, a, bounds, err)
	}
	return err
}

// target returns the options for what the command line selects: an experiment by its name, or by
// that of its file, or an application of the user's own.
func (f *weighFlags) target(env Env, name string, command []string) (o lab.Options, err error) {
	switch {
	case name != "" && len(command) > 0:
		return o, fmt.Errorf("%q and an application of your own are mutually exclusive", name)
	case name == "" && (len(command) > 0 || f.own.builds()):
		s, err := f.own.experiment(env, command)
		if err != nil {
			return o, err
		}
		if o, err = f.options(env, "", s, f.own.commandLine()); len(command) > 0 {
			o.Tail = append([]string{"--"}, command...)
		}
		return o, err
	}
	name = cmp.Or(name, defaultExperiment)
	if err := f.own.rejectFor(fmt.Sprintf("%q", name)); err != nil {
		return o, err
	}
	if ext := filepath.Ext(name); ext != ".yaml" && ext != ".yml" {
		return f.options(env, name, nil, []string{name})
	}
	s, err := lab.ReadOwn(env.path(name))
	if err != nil {
		return o, err
	}
	words := []string{name}
	return f.options(env, "", s, append(words, wordsOf(f.set, f.isSet, "fail-if")...))
}

// weighOne runs or prepares an experiment and shows the outcome. It returns nil if nothing was
// started.
func weighOne(ctx context.Context, env Env, o lab.Options, flags *weighFlags) (*report.Report, error) {
	p := newProgress(env.Stderr)
	o.Logf, o.Progress = p.print, func(g lab.Progress) { showWeighing(p, g) }
	o.Early = func(r *sample.Run) {
		p.above(strings.Split(strings.TrimRight(report.New(r).Early(), "\n"), "\n"))
	}
	if flags.prepare {
		err := prepared(lab.Prepare(ctx, o))
		p.end()
		return nil, err
	}
	closeGenerator, err := flags.generator.open(ctx, env, &o)
	if err != nil {
		p.end()
		return nil, err
	}
	defer closeGenerator()
	r, dir, err := lab.Weigh(ctx, o)
	p.end()
	if r == nil {
		return nil, weighError(err)
	}
	a := report.New(r)
	return a, showResults(env, a, dir, flags.details, err)
}

// prepared returns the error of a preparation, or one if r is incomplete.
func prepared(r *sample.Run, err error) error {
	if err == nil && !r.Complete() {
		return &exitError{exitFail, errors.New("the preparation is incomplete; see above")}
	}
	return weighError(err)
}

// weighError gives errors about files and options the exit code of usage errors, and names flags.
func weighError(err error) error {
	if _, ok := errors.AsType[*yamlfile.Error](err); ok {
		return usageError(err)
	}
	if _, ok := errors.AsType[*lab.UsageError](err); ok || errors.Is(err, lab.ErrNoExperiment) {
		return usageError(withFlags(err))
	}
	if errors.Is(err, context.Canceled) {
		return &exitError{exitStop, errors.New("interrupted before the first measurement")}
	}
	return err
}

// showResults writes a report, first to the results folder because the terminal may be gone, then
// the first screen or all details. err is the error of the run.
func showResults(env Env, a *report.Report, dir string, details bool, err error) error {
	kept := dir != ""
	if kept {
		if fileErr := a.WriteFiles(dir); fileErr != nil {
			a.Run.Warnings = append(a.Run.Warnings, fmt.Sprintf("not all results could be written: %v", fileErr))
			kept = false
		}
	}
	if details {
		fmt.Fprint(env.Stdout, a.Text())
	} else {
		fmt.Fprint(env.Stdout, a.Brief())
	}
	if kept {
		fmt.Fprintf(env.Stdout, "Report: %s\n", filepath.Join(dir, report.PageFile))
	}
	switch {
	case errors.Is(err, context.Canceled):
		return &exitError{exitStop, errors.New("interrupted: the report covers the trials until then")}
	case err != nil:
		return err
	case !a.Complete():
		return &exitError{exitFail, errors.New("the comparison or its results are incomplete; see above")}
	}
	return nil
}

// options returns the options for an experiment of the project, or for s. words are the
// arguments that selected it.
func (f *weighFlags) options(env Env, experiment string, s *lab.Experiment, words []string) (o lab.Options, err error) {
	o = f.run
	o.Experiment, o.Own, o.Out, o.Reports, o.Tool = experiment, s, f.outDir(env), report.FileNames(), toolVersion()
	o.Until.Width = f.until / 100
	w, err := findWorkspace(env, s == nil)
	if err != nil {
		return o, err
	}
	o.Root, o.Results, o.Tools = w.root, w.results, w.tools
	if self, err := os.Executable(); err == nil {
		o.Guard = []string{self, "guard"}
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
	o.Adjust = func(t *lab.Trials) {
		for name, set := range map[string]func(){
			"blocks":      func() { t.SetBlocks(f.blocks) },
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

// commandLine returns the flags for the report to repeat.
func (f *weighFlags) commandLine() (words []string) {
	for _, r := range flagRules() {
		if r.repeated {
			words = append(words, wordsOf(f.set, f.isSet, r.name)...)
		}
	}
	return words
}

// wordsOf returns the flags with these names that are set, as on a command line.
func wordsOf(set *pflag.FlagSet, isSet func(name string) bool, names ...string) (words []string) {
	for _, name := range names {
		if !isSet(name) {
			continue
		}
		flag := set.Lookup(name)
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if flag.Value.Type() != "stringArray" { // flags of this type are repeated
			values = []string{strings.Join(values, ",")}
		}
		for _, value := range values {
			switch {
			case value == "true" && flag.Value.Type() == "bool":
				words = append(words, "--"+name)
			case flag.Value.Type() == "bool":
			case flag.NoOptDefVal != "":
				words = append(words, "--"+name+"="+value)
			default:
				words = append(words, "--"+name, value)
			}
		}
	}
	return words
}

func showWeighing(p *progress, g lab.Progress) {
	share := float64(g.Done) / float64(max(g.Total, 1))
	left := (g.Total - g.Done).Round(time.Second)
	if g.Blocks == 0 && g.Condition == (sample.Condition{}) { // a case of events
		p.set(share, "%s  %s left", g.Contender, left)
		return
	}
	rate := "starting"
	switch {
	case g.PerSecond > 0:
		rate = loadreport.Count(g.PerSecond) + " requests/s"
	case g.Condition.Connections == 0:
		rate = "running"
	}
	where := fmt.Sprintf("block %d of %d", g.Block, g.Blocks)
	if g.Block == 0 {
		where = "counting"
	}
	p.set(share, "%s  %s  %s  %s  %s left", where, describeCondition(g.Condition), g.Contender, rate, left)
}

func describeCondition(c sample.Condition) string {
	text := fmt.Sprintf("%d connections", c.Connections)
	if c.Connections == 0 {
		text = c.Scenario.Name
	}
	if !c.Saturated() {
		text += fmt.Sprintf(" at %s/s", loadreport.Count(c.Rate))
	}
	if c.Procs > 0 {
		text += fmt.Sprintf("  GOMAXPROCS %d", c.Procs)
	}
	return text
}
