package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/tarehq/tare/internal/lab/benchmark"
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// Programs are the engines of an experiment whose programs measure themselves: Go benchmarks, or
// load generators. Its scenarios are rows of package benchmark.
type Programs struct {
	Module  string             `yaml:"module"` // the folder of the benchmarks' module, relative to the project's
	Server  string             `yaml:"server"` // the contender to which load generators send requests
	Engines []benchmark.Engine `yaml:"engines"`
}

func (e *Experiment) engine(name string) *benchmark.Engine {
	i := slices.IndexFunc(e.Engines, func(x benchmark.Engine) bool { return x.Name == name })
	if i < 0 {
		return nil
	}
	return &e.Engines[i]
}

// checkPrograms returns a *yamlfile.Error for the first invalid value of programs and counts.
func (e *Experiment) checkPrograms(f *yamlfile.File) error {
	if e.Module == "" == (e.Server == "") {
		return f.Fault("$.module", "module is missing (the folder of the benchmarks), or server (of load generators)")
	}
	for i := range e.Engines {
		x := &e.Engines[i]
		if what := x.Fault(e.Server != ""); what != "" {
			return f.Fault(fmt.Sprintf("$.engines[%d]", i), "engines: %s", what)
		}
	}
	for _, name := range e.Contenders() {
		if e.engine(name) == nil {
			return f.Fault("$.engines", "engines: want names of engines as control and in targets, got %q", name)
		}
	}
	for i := range e.Quick.Scenarios {
		s, at := &e.Quick.Scenarios[i], fmt.Sprintf("$.quick.scenarios[%d]", i)
		if len(s.Run) > 0 != (e.Server != "") {
			return f.Fault(at, "scenarios: benchmark requires module, and run requires server")
		}
		for _, name := range slices.Sorted(maps.Keys(s.Run)) {
			if e.engine(name) == nil {
				return f.Fault(at, "scenarios: run: want names of engines, got %q", name)
			}
		}
	}
	return nil
}

// isProgram reports whether the scenario is a row of programs.
func (s *Scenario) isProgram() bool { return s.Benchmark != "" || len(s.Run) > 0 }

// findProgram returns the program of an engine as an entrant. An engine without one is left out.
func (w *runner) findProgram(ctx context.Context, e *benchmark.Engine) sample.Entrant {
	w.recorder.Log("preparing %s", e.Title)
	entrant := sample.Entrant{Name: e.Name, Title: e.Title, Kind: w.kind(e.Name)}
	p, err := benchmark.Find(ctx, w.Tools, filepath.Join(w.Root, w.experiment.Module), w.experiment.Name, e, w.programs)
	if err != nil {
		entrant.Absent = err.Error()
		w.recorder.Log("left out: %s: %v", e.Title, err)
		return entrant
	}
	entrant.Versions, w.programs[e.Name] = p.Versions, p
	for i := range w.trials.Scenarios {
		if s := &w.trials.Scenarios[i]; slices.Contains(s.members(), e.Name) && !p.Has(&s.Row) {
			w.recorder.Warn("%s: %s has no such row", s.Name, e.Title)
		}
	}
	return entrant
}

// runPrograms measures all rows, in blocks.
func (w *runner) runPrograms(ctx context.Context, stage *contender.Stage) error {
	w.addTargets()
	w.recorder.Save()
	for i := range w.trials.Scenarios {
		w.run.Blocks = max(w.run.Blocks, w.trials.Scenarios[i].Blocks)
	}
	loop := trial.Loop{
		Conditions: w.run.Conditions, Blocks: w.run.Blocks, Seed: w.Seed, Keep: w.keep,
		Measure: func(ctx context.Context, turn trial.Turn) ([]sample.Record, error) {
			return w.runEngines(ctx, stage, turn)
		},
	}
	last, err := loop.Run(ctx)
	if err != nil {
		w.recorder.Warn("interrupted in block %d of %d", last, w.run.Blocks)
	}
	return err
}

func (w *runner) findServer(ctx context.Context) error {
	if w.experiment.Server == "" {
		return nil
	}
	spec, err := w.spec(w.experiment.Server)
	if err != nil {
		return err
	}
	if w.server, err = w.Tools.Prepare(ctx, spec); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// runEngines runs a row of each engine, in random order. These processes follow each other, because
// they are compared.
func (w *runner) runEngines(ctx context.Context, stage *contender.Stage,
	turn trial.Turn) (all []sample.Record, err error) {
	random := rand.New(rand.NewPCG(w.Seed, uint64(turn.Done)))
	c := turn.Condition
	isRow := func(s Scenario) bool { return s.Name == c.Scenario.Name }
	row := &w.trials.Scenarios[slices.IndexFunc(w.trials.Scenarios, isRow)]
	if turn.Block > cmp.Or(row.Blocks, w.trials.Blocks) {
		return nil, nil
	}
	shared := benchmark.Turn{Procs: c.Procs, Length: w.run.Measure}
	if w.server != nil {
		stop, err := w.startServer(ctx, stage, row, &shared)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	// Package testing runs a benchmark several times until it takes its time.
	report := w.progress(turn, Progress{Block: turn.Block, Blocks: w.run.Blocks, Condition: c},
		2*w.run.Measure*time.Duration(len(w.run.Entrants)), len(w.run.Conditions)*w.run.Blocks)
	for _, i := range random.Perm(len(w.run.Entrants)) {
		e := &w.run.Entrants[i]
		program := w.programs[e.Name]
		if program == nil || !slices.Contains(row.members(), e.Name) || !program.Has(&row.Row) ||
			w.hasFailed(c, e.Name) {
			continue
		}
		report(e.Name, 0)
		r := sample.Record{Block: turn.Block, Condition: c, Contender: e.Name, Start: time.Now()}
		r.Values, r.Iterations, err = program.Run(ctx, &row.Row, shared)
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

func (w *runner) startServer(ctx context.Context, stage *contender.Stage, row *Scenario,
	turn *benchmark.Turn) (stop func() error, err error) {
	spec, c := *w.server.Spec, *w.server
	spec.Set, c.Spec = row.Set, &spec
	ready := func(ctx context.Context, address string) error {
		return equal.Ready(ctx, c.At(address), equal.Request{Method: http.MethodGet, Path: "/", Host: "localhost"})
	}
	conf, err := w.experiment.NginxConf()
	if err != nil {
		return nil, err
	}
	cpus, _ := trial.Layout(w.cpus, 1)
	r, err := stage.Start(ctx, &c, contender.Setting{Cores: 1, CPUs: cpus, Host: "localhost", Conf: conf}, ready)
	if err != nil {
		return nil, err
	}
	turn.URL = "http://" + r.Address + "/"
	return r.Stop, nil
}

func (s *Scenario) programCondition() sample.Condition {
	return sample.Condition{Procs: cmp.Or(s.Procs, runtime.NumCPU()), Scenario: sample.Scenario{Name: s.Name}}
}
