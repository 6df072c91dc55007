package benchmark

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
)

// runner carries out one run. It is a trial.Source.
type runner struct {
	lab.Options
	experiment *Experiment
	run        *sample.Run
	module     string
	blocks     int // of rows without their own
	rows       map[sample.Condition]*TargetRow
	programs   map[string]program // by engine
	failures   map[trial.Slot]int // by engine, without block
	server     *server            // nil of Go benchmarks
	recorder   lab.Recorder
}

// Weigh runs an experiment and writes each result to the journal at once. Options.Only names
// engines, rows, or both. Weigh returns what was measured even after an error; run is nil if
// nothing was measured. The error is ctx's or the reason why the run ended early.
func Weigh(ctx context.Context, o lab.Options) (run *sample.Run, dir string, err error) {
	w, err := newRunner(o)
	if err != nil {
		return nil, "", err
	}
	if err := w.recorder.Open(&w.Options); err != nil {
		return nil, "", err
	}
	loop := trial.Loop{Conditions: w.run.Conditions, Blocks: w.run.Blocks, Seed: w.Seed, Keep: w.keep}
	last, err := loop.Run(ctx, w)
	if err != nil && last == 0 {
		w.recorder.Discard()
		return nil, "", err
	}
	if err != nil {
		w.recorder.Warn("interrupted in block %d of %d", last, w.run.Blocks)
	}
	return w.recorder.Close(err)
}

// Prepare compiles or finds the programs of an experiment. It does not run them.
func Prepare(ctx context.Context, o lab.Options) (*sample.Run, error) {
	w, err := newRunner(o)
	if err != nil {
		return nil, err
	}
	return w.run, w.Prepare(ctx)
}

func newRunner(o lab.Options) (*runner, error) {
	e, err := ReadExperiment(filepath.Join(o.Root, "experiments", o.Experiment))
	if err != nil {
		return nil, err
	}
	trials := e.Quick
	if o.Full {
		trials = e.Full
	}
	trials.adjust(o.Adjust)
	if key, fault := trials.fault(); fault != nil {
		return nil, &lab.UsageError{Option: key, What: fault.Error()}
	}
	if err := e.choose(o.Only); err != nil {
		return nil, err
	}
	if o.Seed == 0 {
		o.Seed = 1 + rand.Uint64N(1<<32)
	}
	w := &runner{
		Options: o, experiment: e, module: filepath.Join(o.Root, e.Module), blocks: trials.Blocks,
		rows: make(map[sample.Condition]*TargetRow), programs: make(map[string]program),
		failures: make(map[trial.Slot]int),
	}
	w.run = &sample.Run{
		Tool: lab.Version(), Experiment: e.Name, Flags: o.Flags, Title: e.Title,
		Question: e.Question, Source: e.Source, Started: time.Now(), Seed: o.Seed, Blocks: trials.Blocks,
		Measure: time.Duration(trials.Time), Environment: lab.Environment(runtime.NumCPU()), HasPrograms: true,
	}
	w.recorder = lab.Recorder{Run: w.run, Logf: o.Logf}
	w.UseTools(w.recorder.Log)
	w.addConditions(trials.areExact)
	return w, nil
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
			return lab.UsageErrorf(lab.OptionOnly, "%q is not in %s; want engines (%s) or rows (%s)", name, e.Name,
				strings.Join(names, ", "), strings.Join(rows, ", "))
		}
	}
	e.Engines = slices.DeleteFunc(e.Engines, func(x Engine) bool {
		return len(engines) > 0 && x.Name != e.Control && !slices.Contains(engines, x.Name)
	})
	if len(wanted) == 0 {
		return nil
	}
	isOther := func(row string) bool { return !slices.Contains(wanted, row) }
	e.Targets = slices.DeleteFunc(e.Targets, func(r TargetRow) bool { return isOther(r.Name) })
	e.Counts = slices.DeleteFunc(e.Counts, func(c Count) bool { return slices.ContainsFunc(c.of(rows), isOther) })
	return nil
}

// addConditions adds a condition for each row, and the targets of the rows.
func (w *runner) addConditions(areExact bool) {
	for i := range w.experiment.Targets {
		row := &w.experiment.Targets[i]
		if areExact {
			row.Blocks = 0
		}
		w.run.Blocks = max(w.run.Blocks, row.Blocks)
		c := sample.Condition{Procs: cmp.Or(row.Procs, runtime.NumCPU()), Scenario: sample.Scenario{Name: row.Name}}
		w.run.Conditions = append(w.run.Conditions, c)
		w.rows[c] = row
		for _, t := range row.Targets {
			t.Row = row.Name
			w.run.Targets = append(w.run.Targets, t)
		}
	}
	for _, c := range w.experiment.Counts {
		w.run.Targets = append(w.run.Targets, c.target(w.experiment.Rows()))
	}
}

// Prepare implements trial.Source: it compiles or finds the engines' programs. An engine without a
// program is left out.
func (w *runner) Prepare(ctx context.Context) error {
	if w.experiment.Server != "" {
		if err := w.openServer(ctx); err != nil {
			return err
		}
	}
	for i := range w.experiment.Engines {
		e := &w.experiment.Engines[i]
		entrant := sample.Entrant{Name: e.Name, Title: e.Title, Kind: sample.Way, Runtime: "Go"}
		if e.Name == w.experiment.Control {
			entrant.Kind = sample.Control
		}
		p, err := w.program(ctx, e)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			entrant.Absent = err.Error()
			w.recorder.Log("left out: %s: %v", e.Title, err)
		default:
			entrant.Versions = p.versions()
			w.programs[e.Name] = p
			for _, row := range w.rows {
				if row.concerns(e.Name) && !p.has(row) {
					w.recorder.Warn("%s: %s has no such row", row.Name, e.Title)
				}
			}
		}
		w.run.Entrants = append(w.run.Entrants, entrant)
	}
	w.recorder.Save()
	return nil
}

// program returns the program of an engine. Engines with one package share it.
func (w *runner) program(ctx context.Context, e *Engine) (program, error) {
	if e.Needs != "" {
		return w.findTool(ctx, e)
	}
	w.recorder.Log("compiling the benchmarks of %s", e.Title)
	for _, p := range w.programs {
		b, ok := p.(*binary)
		if !ok || b.engine.Package != e.Package {
			continue
		}
		same := *b
		same.engine = e
		var err error
		same.parts, err = versions(ctx, w.Tools.GoEnv, same.path, same.dir, e.Module)
		return &same, err
	}
	return compile(ctx, w.Tools, w.module, filepath.Base(w.Experiment), e)
}

// Measure implements trial.Source: it runs the row of each engine, in random order. These processes
// follow each other, because they are compared.
func (w *runner) Measure(ctx context.Context, turn trial.Turn) (all []sample.Record, err error) {
	random := rand.New(rand.NewPCG(w.Seed, uint64(turn.Done)))
	c, row := turn.Condition, w.rows[turn.Condition]
	if turn.Block > cmp.Or(row.Blocks, w.blocks) {
		return nil, nil
	}
	shared := rowTurn{procs: c.Procs, length: w.run.Measure}
	if w.server != nil {
		url, stop, err := w.startServer(ctx, row)
		if err != nil {
			return nil, err
		}
		shared.url = url
		defer func() { err = errors.Join(err, stop()) }()
	}
	for _, i := range random.Perm(len(w.run.Entrants)) {
		e := &w.run.Entrants[i]
		if e.Absent != "" || !row.concerns(e.Name) || !w.programs[e.Name].has(row) ||
			w.failures[trial.Slot{Condition: c, Contender: e.Name}] >= lab.FailuresToDrop {
			continue
		}
		w.follow(turn, e)
		r := sample.Record{Block: turn.Block, Condition: c, Contender: e.Name, Start: time.Now()}
		r.Values, r.Iterations, err = w.programs[e.Name].run(ctx, row, shared)
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

// keep adds a record to the run.
func (w *runner) keep(r sample.Record) {
	w.recorder.Add(r)
	if r.Failure != "" {
		w.failures[trial.Slot{Condition: r.Condition, Contender: r.Contender}]++
		w.recorder.Log("failed: %s of %s, GOMAXPROCS %d, block %d: %s", r.Scenario.Name, r.Contender, r.Procs, r.Block,
			r.Failure)
	}
}

// follow reports progress.
func (w *runner) follow(turn trial.Turn, e *sample.Entrant) {
	if w.Progress == nil {
		return
	}
	// Package testing runs a benchmark several times until it takes its time.
	each := turn.Each(2 * w.run.Measure * time.Duration(len(w.run.Entrants)))
	w.Progress(lab.Progress{
		Done: each * time.Duration(turn.Done), Total: each * time.Duration(len(w.run.Conditions)*w.run.Blocks),
		Block: turn.Block, Blocks: w.run.Blocks, Contender: turn.Condition.Scenario.Name + " of " + e.Title,
		Condition: turn.Condition,
	})
}
