package gobench

import (
	"cmp"
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

// runner carries out one run. It is a trial.Source.
type runner struct {
	Options
	experiment *Experiment
	run        *sample.Run
	module     string
	blocks     int // of rows without their own
	rows       map[sample.Condition]*TargetRow
	binaries   map[string]*binary // by engine
	failures   map[slot]int
	journal    *sample.Journal // nil if results cannot be written
	dir        string
}

// slot is a benchmark of an engine under a condition.
type slot struct {
	sample.Condition
	engine string
}

// Weigh runs an experiment and writes each result to the journal at once. It returns what was
// measured even after an error; run is nil if nothing was measured. The error is ctx's or the
// reason why the run ended early.
func Weigh(ctx context.Context, o Options) (run *sample.Run, dir string, err error) {
	w, err := prepare(ctx, o)
	if err != nil {
		return nil, "", err
	}
	w.openResults()
	err = w.measure(ctx)
	if w.journal != nil {
		err = errors.Join(err, w.journal.Close())
	}
	w.run.Seconds = time.Since(w.run.Started).Seconds()
	return w.run, w.dir, err
}

// Prepare compiles an experiment's benchmarks. It does not run them.
func Prepare(ctx context.Context, o Options) (*sample.Run, error) {
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
	if key, fault := trials.fault(len(e.Targets) > 0); fault != nil {
		return nil, &lab.UsageError{Option: key, What: fault.Error()}
	}
	if err := e.choose(o.Only); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(o.Out, sample.JournalFile)); o.Out != "" && err == nil {
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
		Options: o, experiment: e, module: filepath.Join(o.Root, e.Module), blocks: trials.Blocks,
		rows: make(map[sample.Condition]*TargetRow), binaries: make(map[string]*binary), failures: make(map[slot]int),
	}
	w.run = &sample.Run{
		Tool: labrun.Version(), Experiment: e.Name, Flags: o.Flags, Title: e.Title,
		Question: e.Question, Source: e.Source, Started: time.Now(), Seed: o.Seed, Blocks: trials.Blocks,
		Measure: time.Duration(trials.Time), Environment: labrun.Environment(runtime.NumCPU()),
		Benchmarks: &sample.Benchmarks{
			Groups: e.groups(), Procs: threads(trials.Procs), Published: published, Why: e.Published.Why,
		},
	}
	w.addConditions(trials.areExact)
	return w, w.compile(ctx)
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

// choose leaves out the engines and rows that only does not name. If it names no engine, all
// engines take part, and likewise for rows.
func (e *Experiment) choose(only []string) error {
	rows := e.Rows()
	var names []string
	for _, x := range e.Engines {
		names = append(names, x.Name)
	}
	var engines, wanted []string
	for _, name := range only {
		switch {
		case slices.Contains(names, name):
			engines = append(engines, name)
		case slices.Contains(rows, name):
			wanted = append(wanted, name)
		default:
			return &lab.UsageError{
				Option: lab.OptionOnly, What: fmt.Sprintf("%q is not in %s; want engines (%s) or rows (%s)",
					name, e.Name, strings.Join(names, ", "), strings.Join(rows, ", ")),
			}
		}
	}
	e.Engines = slices.DeleteFunc(e.Engines, func(x Engine) bool {
		return len(engines) > 0 && x.Name != e.Control && !slices.Contains(engines, x.Name)
	})
	if len(wanted) == 0 {
		return nil
	}
	isOther := func(row string) bool { return !slices.Contains(wanted, row) }
	for i := range e.Groups {
		e.Groups[i].Rows = slices.DeleteFunc(slices.Clone(e.Groups[i].Rows), isOther)
	}
	e.Groups = slices.DeleteFunc(e.Groups, func(g Group) bool { return len(g.Rows) == 0 })
	e.Targets = slices.DeleteFunc(e.Targets, func(r TargetRow) bool { return isOther(r.Name) })
	e.Counts = slices.DeleteFunc(e.Counts, func(c Count) bool { return slices.ContainsFunc(c.of(rows), isOther) })
	return nil
}

// groups returns the groups as a run holds them.
func (e *Experiment) groups() (all []sample.Group) {
	for _, g := range e.Groups {
		all = append(all, sample.Group(g))
	}
	return all
}

// addConditions adds a condition for each row, with each number of threads unless the row has its
// own, and the targets of the rows.
func (w *runner) addConditions(areExact bool) {
	add := func(row *TargetRow, procs int) {
		c := sample.Condition{Procs: procs, Scenario: sample.Scenario{Name: row.Name}}
		w.run.Conditions = append(w.run.Conditions, c)
		w.rows[c] = row
	}
	for _, procs := range w.run.Benchmarks.Procs {
		for _, g := range w.run.Benchmarks.Groups {
			for _, name := range g.Rows {
				add(&TargetRow{Name: name, Benchmark: name}, procs)
			}
		}
	}
	for i := range w.experiment.Targets {
		row := &w.experiment.Targets[i]
		if areExact {
			row.Blocks = 0
		}
		add(row, cmp.Or(row.Procs, runtime.NumCPU()))
		for _, t := range row.Targets {
			w.run.Targets = append(w.run.Targets, t.Of(row.Name))
		}
	}
	for _, c := range w.experiment.Counts {
		w.run.Targets = append(w.run.Targets, c.target(w.experiment.Rows()))
	}
}

// compile compiles the engines' benchmarks. An engine that cannot be compiled is left out.
func (w *runner) compile(ctx context.Context) error {
	for i := range w.experiment.Engines {
		e := &w.experiment.Engines[i]
		w.logf("compiling the benchmarks of %s", e.Title)
		entrant := sample.Entrant{Name: e.Name, Title: e.Title, Kind: sample.Way, Runtime: "Go", Prefix: e.Prefix}
		if e.Name == w.experiment.Control {
			entrant.Kind = sample.Control
		}
		b, err := w.compiled(ctx, e)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			entrant.Absent = err.Error()
			w.logf("left out: %s: %v", e.Title, err)
		default:
			entrant.Versions = b.versions
			w.binaries[e.Name] = b
			for _, c := range w.run.Conditions {
				name, has := c.Scenario.Name, slices.Contains(b.benchmarks, e.Prefix+w.rows[c].Benchmark)
				if !has && !slices.Contains(entrant.Lacking, name) {
					entrant.Lacking = append(entrant.Lacking, name)
				}
			}
		}
		w.run.Entrants = append(w.run.Entrants, entrant)
	}
	return nil
}

// compiled returns the benchmarks of an engine. Engines with one package share the program.
func (w *runner) compiled(ctx context.Context, e *Engine) (*binary, error) {
	for i := range w.experiment.Engines {
		other := &w.experiment.Engines[i]
		b := w.binaries[other.Name]
		if b == nil || other.Package != e.Package {
			continue
		}
		same := *b
		same.part = e.Part
		var err error
		same.versions, err = versions(ctx, w.Tools.GoEnv, same.path, same.dir, e.Module)
		return &same, err
	}
	return compile(ctx, w.Tools, w.module, filepath.Base(w.Experiment), e)
}

// openResults makes the results folder and the journal. If that fails, the run continues and
// reports on the terminal only.
func (w *runner) openResults() {
	dir, err := labrun.ResultsDir(cmp.Or(w.Results, w.Root), w.Out, w.run.Started)
	if err == nil {
		w.journal, err = sample.NewJournal(filepath.Join(dir, sample.JournalFile))
	}
	if err != nil {
		w.warn("results cannot be written to disk: %v", err)
		return
	}
	w.dir = dir
}

// measure runs all blocks.
func (w *runner) measure(ctx context.Context) error {
	for _, row := range w.experiment.Targets {
		w.run.Blocks = max(w.run.Blocks, row.Blocks)
	}
	loop := trial.Loop{
		Conditions: w.run.Conditions, Blocks: w.run.Blocks, Seed: w.Seed, Keep: w.keep,
	}
	last, err := loop.Run(ctx, w)
	if err != nil {
		w.warn("interrupted in block %d of %d", last, w.run.Blocks)
	}
	return err
}

// Measure implements trial.Source: it runs the row's benchmark of each engine, in random order.
// These processes follow each other, because they are compared.
func (w *runner) Measure(ctx context.Context, turn trial.Turn) (all []sample.Record, err error) {
	random := rand.New(rand.NewPCG(w.Seed, uint64(turn.Done)))
	c, row := turn.Condition, w.rows[turn.Condition]
	if turn.Block > cmp.Or(row.Blocks, w.blocks) {
		return nil, nil
	}
	for _, i := range random.Perm(len(w.run.Entrants)) {
		e := &w.run.Entrants[i]
		if e.Absent != "" || slices.Contains(e.Lacking, row.Name) || w.failures[slot{c, e.Name}] >= failuresToDrop ||
			!row.concerns(e.Name) {
			continue
		}
		w.follow(turn, e)
		r := sample.Record{Block: turn.Block, Condition: c, Contender: e.Name, Start: time.Now()}
		length := w.run.Measure.String()
		if row.Once {
			length = "1x"
		}
		r.Values, r.Iterations, err = w.binaries[e.Name].run(ctx, e.Prefix+row.Benchmark, c.Procs, length)
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
		if err != nil {
			r.Failure = err.Error()
		}
		all = append(all, r)
	}
	return all, nil
}

// keep adds a record to the run and to the journal.
func (w *runner) keep(r sample.Record) {
	w.run.Records = append(w.run.Records, r)
	if r.Failure != "" {
		w.failures[slot{r.Condition, r.Contender}]++
		w.logf("failed: %s of %s, GOMAXPROCS %d, block %d: %s", r.Scenario.Name, r.Contender, r.Procs, r.Block,
			r.Failure)
	}
	if w.journal == nil {
		return
	}
	if err := w.journal.Add(&r); err != nil {
		w.warn("results are no longer written to disk: %v", err)
		_ = w.journal.Close()
		w.journal = nil
	}
}

// follow reports progress.
func (w *runner) follow(turn trial.Turn, e *sample.Entrant) {
	if w.Progress == nil {
		return
	}
	// Package testing runs a benchmark several times until it takes its time.
	each := turn.Each(2 * w.run.Measure * time.Duration(len(w.run.Entrants)))
	w.Progress(Progress{
		Done: each * time.Duration(turn.Done), Total: each * time.Duration(len(w.run.Conditions)*w.run.Blocks),
		Block: turn.Block, Blocks: w.run.Blocks, Benchmark: e.Prefix + turn.Condition.Scenario.Name,
		Procs: turn.Condition.Procs,
	})
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
