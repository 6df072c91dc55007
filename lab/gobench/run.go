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

	"github.com/tarehq/tare/lab"
	"github.com/tarehq/tare/lab/report"
)

// failuresToDrop is after how many failed processes a benchmark is not tried again.
const failuresToDrop = 2

// Options are what a run can be told.
type Options struct {
	Root       string // the project's folder, absolute
	Experiment string // a folder in experiments/
	Full       bool   // run the experiment's full trials, not its quick ones

	Only   []string      // engines, rows, or both; the control takes part anyway. Empty means all
	Adjust func(*Trials) // changes what the experiment says; may be nil
	Seed   uint64        // of the order; 0 is a new one
	Out    string        // results folder; "" is a new one in Root/results
	Flags  []string      // those that gave the above, for the report to repeat; without the seed

	Say      func(format string, args ...any) // may be nil
	Progress func(Progress)                   // may be nil
}

// Progress is how far a run has come.
type Progress struct {
	Done, Total   time.Duration // Total is an estimate
	Block, Blocks int
	Benchmark     string
	Procs         int
}

// Run is a run's records, and what is known of how they came about.
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
	Time        time.Duration      `json:"benchtime_ns"`
	Procs       []int              `json:"gomaxprocs"`
	Environment report.Environment `json:"environment"`
	Control     string             `json:"control"`
	Entrants    []Entrant          `json:"engines"`
	Groups      []Group            `json:"groups"` // of the rows that take part
	Samples     []Sample           `json:"samples"`
	Published   []Published        `json:"published"`
	Why         string             `json:"why"` // ours may differ from those
	Warnings    []string           `json:"warnings"`
}

// Entrant is an engine that was to take part.
type Entrant struct {
	Engine
	Versions []string `json:"versions"`
	Absent   string   `json:"absent"`  // why it could not
	Lacking  []string `json:"lacking"` // rows that it has no benchmark of
}

// Sample is one process that ran one benchmark.
type Sample struct {
	Block      int    `json:"block"` // from 1
	Procs      int    `json:"gomaxprocs"`
	Row        string `json:"row"`
	Engine     string `json:"engine"`
	Iterations int    `json:"iterations"`
	Figures
	Failure string `json:"failure"` // "" if there was none
}

// Complete reports whether everything was measured that was to be.
func (r *Run) Complete() bool {
	return !slices.ContainsFunc(r.Entrants, func(e Entrant) bool { return e.Absent != "" }) &&
		!slices.ContainsFunc(r.Samples, func(s Sample) bool { return s.Failure != "" }) && len(r.Warnings) == 0
}

// running is a run under way.
type running struct {
	Options
	run      *Run
	module   string
	binaries map[string]*binary // by engine
	failures map[slot]int
	journal  *journal // nil if results cannot be kept
	dir      string
}

// slot is a benchmark under a condition.
type slot struct {
	procs       int
	row, engine string
}

// Weigh runs an experiment and keeps its results as they come. It returns what was
// measured even if something went wrong on the way; run is nil if nothing was begun. The
// error is ctx's, or says why the run ended before its time.
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

// Prepare compiles what an experiment needs, and runs nothing.
func Prepare(ctx context.Context, o Options) (*Run, error) {
	w, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	return w.run, nil
}

func prepare(ctx context.Context, o Options) (*running, error) {
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
		return nil, &lab.UsageError{What: fmt.Sprintf("%s: %v", key, fault)}
	}
	groups, engines, err := e.chosen(o.Only)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(o.Out, benchFile)); o.Out != "" && err == nil {
		return nil, &lab.UsageError{What: fmt.Sprintf("--out: %q holds the results of another run; name another folder", o.Out)}
	}
	if o.Seed == 0 {
		o.Seed = 1 + rand.Uint64N(1<<32)
	}
	w := &running{Options: o, module: filepath.Join(o.Root, e.Module), binaries: make(map[string]*binary), failures: make(map[slot]int)}
	w.run = &Run{
		Tool: lab.Version(), Experiment: e.Name, Flags: o.Flags, Title: e.Title, Question: e.Question, Source: e.Source,
		Started: time.Now(), Seed: o.Seed, Blocks: trials.Blocks, Time: time.Duration(trials.Time), Procs: threads(trials.Procs),
		Environment: lab.Environment(runtime.NumCPU()), Control: e.Control, Groups: groups, Published: published, Why: e.Published.Why,
	}
	return w, w.compile(ctx, engines)
}

// threads are the values of GOMAXPROCS, without those that stand twice.
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

// chosen returns the engines and rows that only names, or all of those it names none of.
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
			return nil, nil, &lab.UsageError{What: fmt.Sprintf("--only: %q takes no part in %s; these do: %s, and of them %s",
				name, e.Name, strings.Join(names, ", "), strings.Join(rows, ", "))}
		}
	}
	for _, x := range e.Engines {
		if len(wantEngines) == 0 || x.Name == e.Control || slices.Contains(wantEngines, x.Name) {
			engines = append(engines, x)
		}
	}
	for _, g := range e.Groups {
		if len(wantRows) > 0 {
			g.Rows = slices.DeleteFunc(slices.Clone(g.Rows), func(row string) bool { return !slices.Contains(wantRows, row) })
		}
		if len(g.Rows) > 0 {
			groups = append(groups, g)
		}
	}
	return groups, engines, nil
}

// compile compiles the engines' benchmarks. An engine that cannot be compiled is left out.
func (w *running) compile(ctx context.Context, engines []Engine) error {
	for _, e := range engines {
		w.say("compiling the benchmarks of %s", e.Title)
		entrant := Entrant{Engine: e}
		b, err := compile(ctx, w.module, filepath.Join(w.Root, ".cache", "bin", w.Experiment+"-"+e.Name+".test"), &e)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			entrant.Absent = err.Error()
			w.say("left out: %s: %v", e.Title, err)
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

// order returns all benchmarks in the order in which to run them: the conditions in random
// order, and under each the engines, so that those compared are close in time.
func (w *running) order(rnd *rand.Rand) (all []slot) {
	var conditions []slot
	for _, procs := range w.run.Procs {
		for _, g := range w.run.Groups {
			for _, row := range g.Rows {
				conditions = append(conditions, slot{procs: procs, row: row})
			}
		}
	}
	for _, c := range rnd.Perm(len(conditions)) {
		for _, i := range rnd.Perm(len(w.run.Entrants)) {
			s, e := conditions[c], &w.run.Entrants[i]
			s.engine = e.Name
			if e.Absent == "" && !slices.Contains(e.Lacking, s.row) {
				all = append(all, s)
			}
		}
	}
	return all
}

// measure runs all blocks.
func (w *running) measure(ctx context.Context) error {
	rnd := rand.New(rand.NewPCG(w.Seed, w.Seed))
	began, done := time.Now(), 0
	for block := range w.run.Blocks {
		slots := w.order(rnd)
		for _, s := range slots {
			w.follow(began, done, len(slots)*w.run.Blocks, block+1, s)
			if w.failures[s] < failuresToDrop {
				sample, err := w.sample(ctx, block+1, s)
				if err != nil {
					w.warn("interrupted in block %d of %d", block+1, w.run.Blocks)
					return err
				}
				w.keep(sample)
			}
			done++
		}
	}
	return nil
}

// sample runs one benchmark. The error is ctx's: a benchmark that fails is a sample, too.
func (w *running) sample(ctx context.Context, block int, s slot) (Sample, error) {
	sample := Sample{Block: block, Procs: s.procs, Row: s.row, Engine: s.engine}
	var err error
	sample.Figures, sample.Iterations, err = w.binaries[s.engine].run(ctx, w.entrant(s.engine).Prefix+s.row, s.procs, w.run.Time)
	if ctx.Err() != nil {
		return sample, ctx.Err()
	}
	if err != nil {
		sample.Failure = err.Error()
		w.failures[s]++
	}
	return sample, nil
}

// keep adds a sample to the run and to what is on disk.
func (w *running) keep(s Sample) {
	w.run.Samples = append(w.run.Samples, s)
	name := w.entrant(s.Engine).Prefix + s.Row
	if s.Failure != "" {
		w.say("failed: %s, GOMAXPROCS %d, block %d: %s", name, s.Procs, s.Block, s.Failure)
		return
	}
	if w.journal == nil {
		return
	}
	if err := w.journal.add(name, &s); err != nil {
		w.warn("results are no longer kept on disk: %v", err)
		_ = w.journal.close()
		w.journal = nil
	}
}

// follow reports how far the run has come.
func (w *running) follow(began time.Time, done, all, block int, s slot) {
	if w.Progress == nil {
		return
	}
	each := 2 * w.run.Time // a benchmark approaches its time by trying
	if done > 0 {
		each = time.Since(began) / time.Duration(done)
	}
	w.Progress(Progress{
		Done: each * time.Duration(done), Total: each * time.Duration(all), Block: block, Blocks: w.run.Blocks,
		Benchmark: w.entrant(s.engine).Prefix + s.row, Procs: s.procs,
	})
}

func (w *running) entrant(name string) *Entrant {
	i := slices.IndexFunc(w.run.Entrants, func(e Entrant) bool { return e.Name == name })
	return &w.run.Entrants[i]
}

func (w *running) say(format string, args ...any) {
	if w.Say != nil {
		w.Say(format, args...)
	}
}

func (w *running) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.run.Warnings = append(w.run.Warnings, text)
	w.say("%s", text)
}
