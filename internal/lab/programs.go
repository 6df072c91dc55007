package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/tarehq/tare/internal/lab/benchmark"
	"github.com/tarehq/tare/internal/lab/contender"
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

// engine returns the engine with a name, or nil.
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

// programs measure themselves. They are a trial.Source.
type programs struct {
	*runner
	stage    *contender.Stage
	failures map[trial.Slot]int // by engine, without block
}

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
	entrant.Versions, w.programs[e.Name] = p.Versions(), p
	for i := range w.trials.Scenarios {
		if s := &w.trials.Scenarios[i]; slices.Contains(s.members(), e.Name) && !p.Has(&s.Row) {
			w.recorder.Warn("%s: %s has no such row", s.Name, e.Title)
		}
	}
	return entrant
}

// runPrograms measures all rows, in blocks.
func (w *runner) runPrograms(ctx context.Context, stage *contender.Stage) error {
	p := &programs{runner: w, stage: stage, failures: make(map[trial.Slot]int)}
	w.addTargets()
	for i := range w.trials.Scenarios {
		w.run.Blocks = max(w.run.Blocks, w.trials.Scenarios[i].Blocks)
	}
	loop := trial.Loop{Conditions: w.run.Conditions, Blocks: w.run.Blocks, Seed: w.Seed, Keep: p.keep}
	last, err := loop.Run(ctx, p)
	if err != nil {
		w.recorder.Warn("interrupted in block %d of %d", last, w.run.Blocks)
	}
	return err
}

// findServer prepares the server of load generators.
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

// Prepare implements trial.Source. The programs were found before.
func (p *programs) Prepare(context.Context) error {
	p.recorder.Save()
	return nil
}

// Measure implements trial.Source: it runs the row of each engine, in random order. These processes
// follow each other, because they are compared.
func (p *programs) Measure(ctx context.Context, turn trial.Turn) (all []sample.Record, err error) {
	random := rand.New(rand.NewPCG(p.Seed, uint64(turn.Done)))
	c := turn.Condition
	isRow := func(s Scenario) bool { return s.Name == c.Scenario.Name }
	row := &p.trials.Scenarios[slices.IndexFunc(p.trials.Scenarios, isRow)]
	if turn.Block > cmp.Or(row.Blocks, p.trials.Blocks) {
		return nil, nil
	}
	shared := benchmark.Turn{Procs: c.Procs, Length: p.run.Measure}
	if p.server != nil {
		stop, err := p.startServer(ctx, row, &shared)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	// Package testing runs a benchmark several times until it takes its time.
	report := p.progress(turn, Progress{Block: turn.Block, Blocks: p.run.Blocks, Condition: c},
		2*p.run.Measure*time.Duration(len(p.run.Entrants)), len(p.run.Conditions)*p.run.Blocks)
	for _, i := range random.Perm(len(p.run.Entrants)) {
		e := &p.run.Entrants[i]
		program := p.programs[e.Name]
		if program == nil || !slices.Contains(row.members(), e.Name) || !program.Has(&row.Row) ||
			p.failures[trial.Slot{Condition: c, Contender: e.Name}] >= FailuresToDrop {
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

// keep adds a record to the run.
func (p *programs) keep(r sample.Record) {
	p.recorder.Add(r)
	if r.Failure != "" {
		p.failures[trial.Slot{Condition: r.Condition, Contender: r.Contender}]++
		p.recorder.Log("failed: %s of %s, GOMAXPROCS %d, block %d: %s", r.Scenario.Name, r.Contender, r.Procs, r.Block,
			r.Failure)
	}
}

// startServer starts the server for a row.
func (p *programs) startServer(ctx context.Context, row *Scenario,
	turn *benchmark.Turn) (stop func() error, err error) {
	spec, c := *p.server.Spec, *p.server
	spec.Set, c.Spec = row.Set, &spec
	connects := func(ctx context.Context, address string) error {
		const patience = 2 * time.Second
		c, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	conf, err := p.experiment.NginxConf()
	if err != nil {
		return nil, err
	}
	cpus, _ := trial.Layout(p.cpus, 1)
	r, err := p.stage.Start(ctx, &c, contender.Setting{Cores: 1, CPUs: cpus, Host: "localhost", Conf: conf}, connects)
	if err != nil {
		return nil, err
	}
	turn.URL = "http://" + r.Address + "/"
	return r.Stop, nil
}

// programCondition returns the condition of a row of programs.
func (s *Scenario) programCondition() sample.Condition {
	return sample.Condition{Procs: cmp.Or(s.Procs, runtime.NumCPU()), Scenario: sample.Scenario{Name: s.Name}}
}
