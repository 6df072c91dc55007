package gobench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
	"github.com/tarehq/tare/internal/labrun"
)

// failuresToDrop is the number of failed processes after which a benchmark is left out.
const failuresToDrop = 2

// Options configure a run.
type Options struct {
	Root       string // the project's folder, absolute
	Experiment string // a folder in experiments/
	Full       bool   // run the experiment's full trials, not its quick ones

	Only    []string         // engines, rows, or both; empty means all. The control always takes part
	Adjust  func(*Trials)    // changes the experiment's trials; may be nil
	Seed    uint64           // of the order; 0 is a random one
	Out     string           // results folder; "" is a new one in Results/results
	Results string           // "" is Root
	Tools   *contender.Tools // compile the benchmarks; nil keeps them in Root/.cache
	Flags   []string         // the command-line arguments that the report repeats; without the seed

	Logf     func(format string, args ...any) // may be nil
	Progress func(Progress)                   // may be nil
}

// Progress is the progress of a run.
type Progress struct {
	Done, Total   time.Duration // Total is an estimate
	Block, Blocks int
	Benchmark     string
	Procs         int
}

// Run is a run's samples, with the experiment and the environment.
type Run struct {
	Tool        string             `json:"tool"`
	Experiment  string             `json:"experiment"`
	Flags       []string           `json:"flags"`
	Title       string             `json:"title"`
	Question    string             `json:"question"`
	Source      string             `json:"source"`
	Started     time.Time          `json:"started"`
	Seconds     float64            `json:"seconds"`
	Seed        uint64             `json:"seed"`
	Blocks      int                `json:"blocks"`
	Time        time.Duration      `json:"benchtimeNs"`
	Procs       []int              `json:"gomaxprocs"`
	Environment sample.Environment `json:"environment"`
	Control     string             `json:"control"`
	Entrants    []Entrant          `json:"engines"`
	Groups      []Group            `json:"groups"` // of the rows that take part
	Samples     []Sample           `json:"samples"`
	Published   []Published        `json:"published"`
	Why         string             `json:"why"` // why figures may differ from the published ones
	Warnings    []string           `json:"warnings"`
}

// Entrant is an engine of a run.
type Entrant struct {
	Engine
	Versions []string `json:"versions"`
	Absent   string   `json:"absent"`  // why it was left out, or ""
	Lacking  []string `json:"lacking"` // rows for which it has no benchmark
}

// Sample is one process that ran one benchmark.
type Sample struct {
	Block      int    `json:"block"` // from 1
	Procs      int    `json:"gomaxprocs"`
	Row        string `json:"row"`
	Engine     string `json:"engine"`
	Iterations int    `json:"iterations"`
	Figures
	Failure string `json:"failure"` // or ""
}

// Complete reports whether all engines took part, all samples succeeded and there were no warnings.
func (r *Run) Complete() bool {
	return !slices.ContainsFunc(r.Entrants, func(e Entrant) bool { return e.Absent != "" }) &&
		!slices.ContainsFunc(r.Samples, func(s Sample) bool { return s.Failure != "" }) && len(r.Warnings) == 0
}

// runner carries out one run.
type runner struct {
	Options
	run      *Run
	module   string
	binaries map[string]*binary // by engine
	failures map[slot]int
	journal  *journal // nil if results cannot be written
	dir      string
}

// condition is a row with a number of threads.
type condition struct {
	procs int
	row   string
}

// slot is a benchmark of an engine under a condition.
type slot struct {
	condition
	engine string
}

// Weigh runs an experiment and writes each result to disk at once. It returns what was measured
// even after an error; run is nil if nothing was measured. The error is ctx's or the reason why the
// run ended early.
func Weigh(ctx context.Context, o Options) (run *Run, dir string, err error) {
	w, err := prepare(ctx, o)
	if err != nil {
		return nil, "", err
	}
	w.openResults()
	err = w.measure(ctx)
	if w.journal != nil {
		err = errors.Join(err, w.journal.close())
	}
	w.run.Seconds = time.Since(w.run.Started).Seconds()
	return w.run, w.dir, err
}

// Prepare compiles an experiment's benchmarks. It does not run them.
func Prepare(ctx context.Context, o Options) (*Run, error) {
	w, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	return w.run, nil
}

func prepare(ctx context.Context, o Options) (*runner, error) {
	e, err := ReadExperiment(filepath.Join(o.Root, "experiments", o.Experiment))
	if err != nil {
		return nil, err
	}
	published, err := e.publishedFigures()
	if err != nil {
		return nil, err
	}
	trials := e.Quick
	if o.Full {
		trials = e.Full
	}
	if o.Adjust != nil {
		o.Adjust(&trials)
	}
	if key, fault := trials.fault(); fault != nil {
		return nil, &lab.UsageError{Option: key, What: fault.Error()}
	}
	groups, engines, err := e.chosen(o.Only)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(o.Out, benchFile)); o.Out != "" && err == nil {
		return nil, &lab.UsageError{
			Option: lab.OptionOut, What: fmt.Sprintf("%q holds the results of another run; name another folder", o.Out),
		}
	}
	if o.Tools == nil {
		o.Tools = &contender.Tools{Cache: filepath.Join(o.Root, ".cache")}
	}
	if o.Seed == 0 {
		o.Seed = 1 + rand.Uint64N(1<<32)
	}
	w := &runner{
		Options: o, module: filepath.Join(o.Root, e.Module), binaries: make(map[string]*binary),
		failures: make(map[slot]int),
	}
	w.run = &Run{
		Tool: labrun.Version(), Experiment: e.Name, Flags: o.Flags, Title: e.Title,
		Question: e.Question, Source: e.Source,
		Started: time.Now(), Seed: o.Seed, Blocks: trials.Blocks, Time: time.Duration(trials.Time),
		Procs: threads(trials.Procs), Environment: labrun.Environment(runtime.NumCPU()), Control: e.Control,
		Groups: groups, Published: published, Why: e.Published.Why,
	}
	return w, w.compile(ctx, engines)
}

// threads returns the values of GOMAXPROCS without duplicates.
func threads(all []lab.Cores) (procs []int) {
	for _, n := range all {
		if n == 0 {
			n = lab.Cores(runtime.NumCPU())
		}
		if !slices.Contains(procs, int(n)) {
			procs = append(procs, int(n))
		}
	}
	return procs
}

// chosen returns the engines and rows that only names. If it names no engine it returns all
// engines, and likewise for rows.
func (e *Experiment) chosen(only []string) (groups []Group, engines []Engine, err error) {
	rows := e.Rows()
	var names []string
	for _, x := range e.Engines {
		names = append(names, x.Name)
	}
	var wantEngines, wantRows []string
	for _, name := range only {
		switch {
		case slices.Contains(names, name):
			wantEngines = append(wantEngines, name)
		case slices.Contains(rows, name):
			wantRows = append(wantRows, name)
		default:
			return nil, nil, &lab.UsageError{
				Option: lab.OptionOnly, What: fmt.Sprintf("%q is not in %s; want engines (%s) or rows (%s)",
					name, e.Name, strings.Join(names, ", "), strings.Join(rows, ", ")),
			}
		}
	}
	for _, x := range e.Engines {
		if len(wantEngines) == 0 || x.Name == e.Control || slices.Contains(wantEngines, x.Name) {
			engines = append(engines, x)
		}
	}
	for _, g := range e.Groups {
		if len(wantRows) > 0 {
			g.Rows = slices.DeleteFunc(slices.Clone(g.Rows),
				func(row string) bool { return !slices.Contains(wantRows, row) })
		}
		if len(g.Rows) > 0 {
			groups = append(groups, g)
		}
	}
	return groups, engines, nil
}

// compile compiles the engines' benchmarks. An engine that cannot be compiled is left out.
func (w *runner) compile(ctx context.Context, engines []Engine) error {
	for _, e := range engines {
		w.logf("compiling the benchmarks of %s", e.Title)
		entrant := Entrant{Engine: e}
		b, err := compile(ctx, w.Tools, w.module, w.Experiment, &e)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			entrant.Absent = err.Error()
			w.logf("left out: %s: %v", e.Title, err)
		default:
			entrant.Versions = b.versions
			w.binaries[e.Name] = b
			for _, g := range w.run.Groups {
				for _, row := range g.Rows {
					if !slices.Contains(b.benchmarks, e.Prefix+row) {
						entrant.Lacking = append(entrant.Lacking, row)
					}
				}
			}
		}
		w.run.Entrants = append(w.run.Entrants, entrant)
	}
	return nil
}

// conditions returns all rows with all numbers of threads.
func (w *runner) conditions() (all []condition) {
	for _, procs := range w.run.Procs {
		for _, g := range w.run.Groups {
			for _, row := range g.Rows {
				all = append(all, condition{procs, row})
			}
		}
	}
	return all
}

// measure runs all blocks.
func (w *runner) measure(ctx context.Context) error {
	loop := trial.Loop[condition, Sample]{
		Conditions: w.conditions(), Blocks: w.run.Blocks, Seed: w.Seed, Keep: w.keep,
	}
	last, err := loop.Run(ctx, w)
	if err != nil {
		w.warn("interrupted in block %d of %d", last, w.run.Blocks)
	}
	return err
}

// Measure implements trial.Source: it runs the row's benchmark of each engine, in random order.
// These processes follow each other, because they are compared.
func (w *runner) Measure(ctx context.Context, turn trial.Turn[condition]) (all []Sample, err error) {
	random := rand.New(rand.NewPCG(w.Seed, uint64(turn.Done)))
	for _, i := range random.Perm(len(w.run.Entrants)) {
		e := &w.run.Entrants[i]
		c := turn.Condition
		if e.Absent != "" || slices.Contains(e.Lacking, c.row) || w.failures[slot{c, e.Name}] >= failuresToDrop {
			continue
		}
		w.follow(turn, e)
		s := Sample{Block: turn.Block, Procs: c.procs, Row: c.row, Engine: e.Name}
		s.Figures, s.Iterations, err = w.binaries[e.Name].run(ctx, e.Prefix+c.row, c.procs, w.run.Time)
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
		if err != nil {
			s.Failure = err.Error()
		}
		all = append(all, s)
	}
	return all, nil
}

// keep adds a sample to the run and to the journal.
func (w *runner) keep(s Sample) {
	w.run.Samples = append(w.run.Samples, s)
	name := w.entrant(s.Engine).Prefix + s.Row
	if s.Failure != "" {
		w.failures[slot{condition{s.Procs, s.Row}, s.Engine}]++
		w.logf("failed: %s, GOMAXPROCS %d, block %d: %s", name, s.Procs, s.Block, s.Failure)
		return
	}
	if w.journal == nil {
		return
	}
	if err := w.journal.add(name, &s); err != nil {
		w.warn("results are no longer written to disk: %v", err)
		_ = w.journal.close()
		w.journal = nil
	}
}

// follow reports progress.
func (w *runner) follow(turn trial.Turn[condition], e *Entrant) {
	if w.Progress == nil {
		return
	}
	// Package testing runs a benchmark several times until it takes its time.
	each := turn.Each(2 * w.run.Time * time.Duration(len(w.run.Entrants)))
	w.Progress(Progress{
		Done: each * time.Duration(turn.Done), Total: each * time.Duration(len(w.conditions())*w.run.Blocks),
		Block: turn.Block, Blocks: w.run.Blocks, Benchmark: e.Prefix + turn.Condition.row, Procs: turn.Condition.procs,
	})
}

func (w *runner) entrant(name string) *Entrant {
	i := slices.IndexFunc(w.run.Entrants, func(e Entrant) bool { return e.Name == name })
	return &w.run.Entrants[i]
}

func (w *runner) logf(format string, args ...any) {
	if w.Logf != nil {
		w.Logf(format, args...)
	}
}

func (w *runner) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.run.Warnings = append(w.run.Warnings, text)
	w.logf("%s", text)
}
