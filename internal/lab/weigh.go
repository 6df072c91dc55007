package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/events"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/remote"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
)

// Options configure a run of an experiment, of any kind.
type Options struct {
	Root       string // absolute path of the project, which has experiments/ and contenders/; any folder with Own
	Experiment string // a folder in experiments/
	Full       bool   // run the experiment's full trials, not its quick ones

	Only     []string                         // what takes part, beside the control; empty means all
	Adjust   func(*Trials)                    // changes the experiment's trials; may be nil
	Seed     uint64                           // of the order of trials; 0 is a random one
	Out      string                           // results folder; "" is a new one in Results/results
	Results  string                           // "" is Root
	Reports  []string                         // files that the caller adds to the results folder
	Tool     string                           // the version of tare, for the report
	Tools    *contender.Tools                 // prepare the contenders; nil keeps their programs in Root/.cache
	Flags    []string                         // the command-line arguments that the report repeats before the seed
	Guard    []string                         // see contender.StageOptions
	Logf     func(format string, args ...any) // receives messages; may be nil
	Progress func(Progress)                   // may be nil

	// Early receives what was measured at saturation, after the third block and each later one; may
	// be nil. It must not keep or change the run.
	Early func(*sample.Run)

	// The others concern only experiments under load.

	Own       *Experiment       // replaces the folder of the experiment; may be nil
	Scenarios []string          // these, by name; empty means all
	Until     Until             // when to stop adding blocks
	Tail      []string          // the command-line arguments after the seed
	Generator *remote.Generator // the machine that generates the load; nil is this one
}

// Trials returns the experiment's trials as the options change them.
func (o *Options) Trials(e *Experiment) Trials {
	t := *e.trials(o.Full)
	if o.Adjust != nil {
		o.Adjust(&t)
	}
	return t
}

// Progress is the progress of a run.
type Progress struct {
	Done, Total time.Duration // of the trials; Total is an estimate
	Block       int           // 0 in trials that count and are not timed
	Blocks      int
	Contender   string // its title; the name of a benchmark, or the title of a case of events
	Condition   sample.Condition
	PerSecond   float64 // current rate of requests; 0 while the contender starts
}

const twin = "twin" // name of the control's copy, whose difference from it is chance

// FailuresToDrop is the number of failed trials after which a contender is left out: of the run at
// saturation, and otherwise of their condition.
const FailuresToDrop = 2

// overhead estimates the time that a trial spends on starting, connecting and stopping.
const overhead = 450 * time.Millisecond

type runner struct {
	Options
	experiment *Experiment
	trials     Trials
	conf       *template.Template // of fronts: nginx.conf
	cpus       []int              // that this process may use
	run        *sample.Run
	contenders map[string]*contender.Contender // those that take part
	server     *contender.Contender            // of load generators; otherwise nil
	cases      []events.Case                   // none unless the experiment is of events
	failed     map[slot]int                    // trials
	isLinkFull bool                            // a warning about the network was given
	narrow     int                             // consecutive blocks after which all intervals were narrow
	written    map[string]map[string][]byte    // configuration files by contender and file name
	bench      *trial.Bench
	recorder   *Recorder
}

// Weigh runs an experiment and writes each record to the journal when its block ends. It returns
// what was measured even after an error; run is nil if nothing was measured. The error is ctx's
// or the reason why the run ended early.
func Weigh(ctx context.Context, o Options) (run *sample.Run, dir string, err error) {
	w, err := prepare(o)
	if err != nil {
		return nil, "", err
	}
	if err := w.recorder.Open(&w.Options); err != nil {
		return nil, "", err
	}
	isStarted := false
	defer func() {
		if !isStarted {
			w.recorder.Discard()
			return
		}
		run, dir, err = w.recorder.Close(err) // after the warnings of what is deferred below
	}()
	if err := w.gather(ctx); err != nil {
		return nil, "", err
	}
	options := contender.StageOptions{Guard: o.Guard, SmallFiles: w.experiment.Small}
	if w.Generator != nil {
		options.Host = w.Generator.Address
	}
	stage, err := contender.NewStage(options)
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if closeErr := stage.Close(); closeErr != nil {
			w.recorder.Warn("cleaning up: %v", closeErr)
		}
	}()
	defer w.prioritize(stage)()
	switch w.experiment.Kind {
	case Benchmarks:
		isStarted = true
		return nil, "", w.runPrograms(ctx, stage)
	case Events:
		isStarted = true
		return nil, "", w.runCases(ctx, stage)
	}
	w.bench = &trial.Bench{
		Stage: stage, CPUs: w.cpus, Request: w.experiment.request(), Conf: w.conf,
		Warmup: time.Duration(w.trials.Warmup), Measure: time.Duration(w.trials.Measure),
		Shapes: make(map[string]trial.Shape),
	}
	for _, s := range w.trials.Scenarios {
		w.bench.Shapes[s.Name] = s.Shape
	}
	if err := w.useGenerator(ctx); err != nil {
		return nil, "", err
	}
	if w.experiment.Request.ExamplePath != "" {
		w.bench.Template = w.experiment.Request.Path
	}
	stopBackend, err := w.startBackend(ctx)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, stopBackend()) }()
	if err := w.prove(ctx); err != nil {
		return nil, "", err
	}
	w.keepConfigs()
	isStarted = true
	return nil, "", w.measure(ctx)
}

// prioritize gives contenders and generator a higher priority than other programs, if this process
// may. restore adds a note of it.
func (w *runner) prioritize(stage *contender.Stage) (restore func()) {
	calm, err := stage.Prioritize()
	if err != nil {
		return func() { w.recorder.Note("Contenders and generator had the priority of other programs: %v.", err) }
	}
	return func() {
		w.recorder.Note("Contenders and generator had a higher priority than other programs: nice %d.",
			contender.Priority)
		if err := calm(); err != nil {
			w.recorder.Warn("restoring the priority: %v", err)
		}
	}
}

func (w *runner) measure(ctx context.Context) error {
	all := []func(context.Context) error{w.runTrials, w.atRate, w.attribute}
	if w.experiment.Kind == Targets {
		all = []func(context.Context) error{w.runTargets}
	}
	for _, carryOut := range all {
		if err := carryOut(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Prepare checks an experiment, and unpacks and builds its contenders. It does not start them.
func Prepare(ctx context.Context, o Options) (*sample.Run, error) {
	w, err := prepare(o)
	if err != nil {
		return nil, err
	}
	return w.run, w.gather(ctx)
}

func prepare(o Options) (*runner, error) {
	e := o.Own
	if e == nil {
		var err error
		if e, err = ReadExperiment(filepath.Join(o.Root, "experiments", o.Experiment)); err != nil {
			return nil, err
		}
	}
	conf, err := e.nginxConf()
	if err != nil {
		return nil, err
	}
	cpus, err := contender.AllCPUs()
	if err != nil {
		return nil, err
	}
	w := &runner{
		Options: o, experiment: e, trials: *e.trials(o.Full), conf: conf, cpus: cpus,
		contenders: make(map[string]*contender.Contender), failed: make(map[slot]int),
		written: make(map[string]map[string][]byte), recorder: &Recorder{Logf: o.Logf},
	}
	if w.Tools == nil {
		w.Tools = &contender.Tools{Cache: filepath.Join(o.Root, ".cache")}
	}
	if w.Tools.Logf == nil { // concurrent runs may share tools, which then have one
		w.Tools.Logf = w.recorder.Log
	}
	tooMany := func(c Cores) bool { return int(c) > len(cpus) }
	if fitting := slices.DeleteFunc(slices.Clone(w.trials.Cores), tooMany); len(fitting) > 0 {
		for _, cores := range w.trials.Cores {
			if tooMany(cores) {
				w.recorder.Log("left out: %v cores: this machine has %d", cores, len(cpus))
			}
		}
		w.trials.Cores = fitting
	}
	if o.Adjust != nil {
		o.Adjust(&w.trials)
	}
	if err := w.selectScenarios(); err != nil {
		return nil, err
	}
	if err := w.check(); err != nil {
		return nil, err
	}
	w.Seed = cmp.Or(w.Seed, 1+rand.Uint64N(1<<32))
	w.run = &sample.Run{
		Tool: o.Tool, Experiment: e.Name, Flags: o.Flags, Tail: o.Tail, Title: e.Title, Question: e.Question,
		Conclusion: e.Conclusion, Source: e.Source, Started: time.Now(), Seed: w.Seed, Blocks: w.trials.Blocks,
		Warmup: time.Duration(w.trials.Warmup), Measure: time.Duration(w.trials.Measure),
		Conditions: w.trials.Conditions(), Placement: placement(cpus, w.trials.Cores),
		Environment: Environment(len(cpus)), Compare: e.Compare, HasPrograms: e.Kind == Benchmarks,
	}
	w.recorder.Run = w.run
	if e.Kind == Events {
		return w, w.planCases()
	}
	return w, nil
}

// check returns a *UsageError for invalid options.
func (w *runner) check() error {
	if fault := w.trials.fault(); fault != nil && w.experiment.Kind != Events {
		return fault
	}
	for _, cores := range w.trials.Cores {
		if int(cores) > len(w.cpus) {
			return UsageErrorf(OptionCores, "want at most %d, the number of this machine's processors, got %v",
				len(w.cpus), cores)
		}
	}
	if !(w.Until.Width >= 0) || w.Until.Within < 0 {
		return UsageErrorf(OptionUntil, "want a percentage and a time above 0")
	}
	hasBeside := func(s Scenario) bool { return len(s.Beside) > 0 }
	if i := slices.IndexFunc(w.trials.Scenarios, hasBeside); i >= 0 && w.Generator != nil {
		return UsageErrorf(OptionGenerator, "scenario %q has load beside its own, which only this process generates",
			w.trials.Scenarios[i].Name)
	}
	most, files := 0, proc.OpenFiles()
	for _, c := range w.trials.Conditions() {
		most = max(most, c.Connections)
	}
	if uint64(most+trial.SpareFiles) > files {
		return UsageErrorf(OptionConnections, "%d connections need %d open files, and the limit is %d; use fewer, or raise the limit (ulimit -n)",
			most, most+trial.SpareFiles, files)
	}
	all := w.experiment.Contenders()
	for _, name := range w.Only {
		if !slices.Contains(all, name) {
			return UsageErrorf(OptionOnly, "%q is not in %s; want %s", name, w.experiment.Name, strings.Join(all, ", "))
		}
	}
	return nil
}

// placement describes on which processors the servers and the generator run.
func placement(cpus []int, all []Cores) string {
	var parts []string
	for _, cores := range all {
		servers, generator := trial.Layout(cpus, int(cores))
		switch {
		case servers != nil:
			parts = append(parts, fmt.Sprintf("servers on %v, generator on %v", servers, generator))
		case cores == 0:
			parts = append(parts, "servers and generator share all processors")
		default:
			parts = append(parts, fmt.Sprintf("servers limited to %d threads; the machine has no processor for the generator alone", cores))
		}
	}
	return strings.Join(parts, "; ")
}

// gather reads and builds the contenders. It leaves out contenders that cannot be built, and
// returns an error for a malformed file.
func (w *runner) gather(ctx context.Context) error {
	if w.experiment.Kind == Events {
		return w.gatherCases(ctx)
	}
	if err := w.findServer(ctx); err != nil {
		return err
	}
	for _, name := range w.experiment.Contenders() {
		if !w.takesPart(name) {
			continue
		}
		spec, err := w.spec(name)
		if err != nil {
			return err
		}
		entrant := sample.Entrant{
			Name: name, Title: spec.Title, About: spec.About, Protocol: spec.Protocol,
			Kind: w.kind(name),
		}
		c, err := w.Tools.Prepare(ctx, spec)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			entrant.Absent = err.Error()
			w.recorder.Log("left out: %s: %v", spec.Title, err)
		default:
			entrant.Versions = c.Versions
			w.contenders[name] = c
		}
		w.run.Entrants = append(w.run.Entrants, entrant)
		if name == w.experiment.Control && err == nil && w.experiment.Kind == Comparison {
			entrant.Name, entrant.Kind, entrant.Title = twin, sample.Twin, entrant.Title+" ("+twin+")"
			w.run.Entrants, w.contenders[twin] = append(w.run.Entrants, entrant), c
		}
	}
	return nil
}

// takesPart reports whether a contender is needed: by the options, and by a row if there are
// targets.
func (w *runner) takesPart(name string) bool {
	if name == w.experiment.Control {
		return true
	}
	if w.experiment.Kind != Comparison && !slices.ContainsFunc(w.trials.Scenarios, func(s Scenario) bool {
		return slices.Contains(s.members(), name)
	}) {
		return false
	}
	return len(w.Only) == 0 || slices.Contains(w.Only, name)
}

func (w *runner) kind(name string) sample.Kind {
	switch {
	case name == w.experiment.Control:
		return sample.Control
	case name == w.experiment.Ceiling:
		return sample.Ceiling
	case name == w.experiment.Build:
		return sample.Build
	case slices.Contains(w.experiment.Rivals, name):
		return sample.Rival
	}
	return sample.Way
}

func (w *runner) comparable() bool { return w.contenders[w.experiment.Control] != nil }

// keep adds a record to the run and to the journal. It counts failures.
func (w *runner) keep(rec sample.Record) {
	w.recorder.Add(rec)
	w.checkLink(&rec)
	if rec.Failure != "" && rec.Attribution == nil {
		w.failed[slot{rec.Condition, rec.Contender}]++
		w.recorder.Log("failed: %s, %s, block %d: %s", w.run.TitleOf(rec.Contender), rec.Condition.Text(), rec.Block,
			rec.Failure)
	}
}

// hasFailed reports whether a contender has no further trial under a condition.
func (w *runner) hasFailed(c sample.Condition, name string) bool {
	return w.failed[slot{c, name}] >= FailuresToDrop
}

// useGenerator measures the network to the generator's machine, if it is another one, and lets the
// bench use it.
func (w *runner) useGenerator(ctx context.Context) error {
	if w.Generator == nil {
		return nil
	}
	link, err := w.Generator.Link(ctx)
	if err != nil {
		return fmt.Errorf("measure the network to %s: %w", w.Generator.Host, err)
	}
	w.bench.Generator, w.run.Link = w.Generator, link
	w.recorder.Note("%s", link.Text())
	return nil
}

const carriedShare = 0.8 // share of the network's bandwidth from which on it may limit the rate

// checkLink warns of a record whose responses almost fill the network.
func (w *runner) checkLink(rec *sample.Record) {
	if w.run.Link == nil || rec.Load == nil {
		return
	}
	perSecond := float64(rec.Load.Bytes) / max(rec.Load.Seconds, 1e-9)
	if share := perSecond / w.run.Link.FromServers; share > carriedShare && !w.isLinkFull {
		w.isLinkFull = true
		w.recorder.Warn("the network may limit the rate: the responses of %s fill %.0f %% of it", w.run.TitleOf(rec.Contender),
			100*share)
	}
}
