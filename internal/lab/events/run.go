package events

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/timeline"
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// runner carries out one run.
type runner struct {
	lab.Options
	experiment *Experiment
	cases      []Case
	contenders map[string]*contender.Contender // by case
	conf       *template.Template              // nil without a front
	run        *sample.Run
	recorder   lab.Recorder
}

// Weigh runs an experiment. Options.Only names cases, and the connections of Options.Adjust are the
// numbers of streams, or the number of slow clients. It returns what was measured even after an
// error; run is nil if nothing was started. The error is ctx's or the reason why the run ended early.
func Weigh(ctx context.Context, o lab.Options) (run *sample.Run, dir string, err error) {
	w, err := prepare(ctx, o)
	if err != nil {
		return nil, "", err
	}
	if err := w.recorder.Open(&w.Options); err != nil {
		return nil, "", err
	}
	stage, err := contender.NewStage(contender.StageOptions{Guard: o.Guard})
	if err != nil {
		w.recorder.Discard()
		return nil, "", err
	}
	for i := range w.cases {
		c := &w.run.Events.Cases[i]
		if c.Absent != "" {
			continue
		}
		w.progress(i)
		planned := *c
		*c, err = undisturbed(w.run.Events.Timeout, func() (timeline.Case, error) {
			*c = planned
			err := w.carryOut(ctx, stage, i)
			return *c, err
		}, func(why string) { w.recorder.Log("%s: %s", planned.Title, why) })
		if err != nil {
			w.recorder.Warn("interrupted in case %d of %d", i+1, len(w.cases))
			break
		}
		w.recorder.Save()
	}
	if closeErr := stage.Close(); closeErr != nil {
		w.recorder.Warn("cleaning up: %v", closeErr)
	}
	return w.recorder.Close(err)
}

// Prepare checks an experiment, and unpacks and builds its contenders. It does not start them.
func Prepare(ctx context.Context, o lab.Options) (*sample.Run, error) {
	w, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	return w.run, nil
}

func prepare(ctx context.Context, o lab.Options) (*runner, error) {
	e, err := ReadExperiment(filepath.Join(o.Root, "experiments", o.Experiment))
	if err != nil {
		return nil, err
	}
	var changed lab.Trials
	if o.Adjust != nil {
		o.Adjust(&changed)
	}
	if err := e.adjustStreams(&changed); err != nil {
		return nil, err
	}
	for _, crowd := range changed.Connections {
		if crowd < 1 || crowd > maxConnections || len(changed.Connections) > 1 {
			return nil, lab.UsageErrorf(lab.OptionConnections, "want one number of slow clients, 1 to %d, got %v",
				maxConnections, changed.Connections)
		}
		e.Crowd.Connections = crowd
	}
	w := &runner{Options: o, experiment: e, contenders: make(map[string]*contender.Contender)}
	if w.cases, err = e.chosen(o.Only); err != nil {
		return nil, err
	}
	if len(e.Streams.Kinds) > 0 {
		w.cases = e.Streams.with(w.cases)
	}
	if w.conf, err = e.NginxConf(); err != nil {
		return nil, err
	}
	cpus, err := contender.AllCPUs()
	if err != nil {
		return nil, err
	}
	w.run = &sample.Run{
		Tool: lab.Version(), Experiment: e.Name, Flags: o.Flags, Title: e.Title, Question: e.Question,
		Started: time.Now(), Measure: time.Duration(e.Length), Environment: lab.Environment(len(cpus)),
		Events: &timeline.Events{Timeout: time.Duration(e.Timeout)},
	}
	w.recorder = lab.Recorder{Run: w.run, Logf: o.Logf}
	w.UseTools(w.recorder.Log)
	for _, g := range e.Groups {
		w.run.Events.Groups = append(w.run.Events.Groups, timeline.Group{Name: g.Name, PerSecond: g.Rate})
	}
	return w, w.gather(ctx)
}

// chosen returns the cases with the given names; without names it returns all.
func (e *Experiment) chosen(only []string) (cases []Case, err error) {
	var names []string
	for _, c := range e.Cases {
		names = append(names, c.Name)
		if len(only) == 0 || slices.Contains(only, c.Name) {
			cases = append(cases, c)
		}
	}
	for _, name := range only {
		if !slices.Contains(names, name) {
			return nil, lab.UsageErrorf(lab.OptionOnly, "%q is not in %s; want %s", name, e.Name,
				strings.Join(names, ", "))
		}
	}
	return cases, nil
}

// gather builds the contenders. It leaves out cases whose contender cannot be built, and returns an
// error for a malformed file.
func (w *runner) gather(ctx context.Context) error {
	for _, c := range w.cases {
		result := timeline.Case{Name: c.Name, Title: c.Title, About: c.About}
		built, err := w.prepared(ctx, &c)
		if malformed, ok := errors.AsType[*yamlfile.Error](err); ok {
			return malformed
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			result.Absent = err.Error()
			w.recorder.Log("left out: %s: %v", c.Title, err)
		default:
			result.Versions = built.Versions
			w.contenders[c.Name] = built
		}
		w.run.Events.Cases = append(w.run.Events.Cases, result)
	}
	return nil
}

// prepared returns the contender of a case. Cases that differ in settings share what was built.
func (w *runner) prepared(ctx context.Context, c *Case) (*contender.Contender, error) {
	isBuilt := func(o Case) bool { return o.Contender == c.Contender && w.contenders[o.Name] != nil }
	if i := slices.IndexFunc(w.cases, isBuilt); i >= 0 {
		shared := *w.contenders[w.cases[i].Name]
		spec := *shared.Spec
		spec.Set, shared.Spec = c.Set, &spec
		return &shared, nil
	}
	spec, err := contender.Find(filepath.Join(w.Root, "contenders"), c.Contender)
	if err != nil {
		return nil, yamlfile.Naming(filepath.Join(w.experiment.Dir, lab.ExperimentFile), c.Contender, err)
	}
	spec.Set = c.Set
	return w.Tools.Prepare(ctx, spec)
}

// carryOut starts the contender of a case, lets clients send requests while its plan happens, and
// ends it. A failure of the contender is in the case's result; the error is ctx's.
func (w *runner) carryOut(ctx context.Context, stage *contender.Stage, i int) error {
	c, result, built := &w.cases[i], &w.run.Events.Cases[i], w.contenders[w.cases[i].Name]
	cpus, err := contender.AllCPUs()
	if err != nil {
		return err
	}
	ready := func(ctx context.Context, address string) error {
		return equal.Ready(ctx, built.At(address), equal.Request{Method: http.MethodGet, Path: "/", Host: "localhost"})
	}
	if c.kind != nil {
		ready = c.kind.ready
	}
	happen := &happening{experiment: w.experiment, of: c, cpus: cpus, result: result}
	for range max(1, c.copies) {
		var running *contender.Running
		if running, err = stage.Start(ctx, built, contender.Setting{
			Cores: len(cpus), Host: "localhost", Conf: w.conf, Replicas: c.Replicas, Activated: c.Activated,
			Files: w.experiment.Files, Replaced: c.kind != nil,
		}, ready); err != nil {
			break
		}
		defer w.stop(c, running)
		happen.running = append(happen.running, running)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		result.Absent = err.Error()
		w.recorder.Log("left out: %s: %v", c.Title, err)
		return nil
	}
	err = happen.run(ctx)
	if err != nil && ctx.Err() == nil {
		result.Absent = err.Error()
		w.recorder.Log("failed: %s: %v", c.Title, err)
		return nil
	}
	return err
}

// stop ends a contender of a case.
func (w *runner) stop(c *Case, running *contender.Running) {
	if err := running.Stop(); err != nil {
		w.recorder.Warn("%s: stop: %v", c.Title, err)
	}
}

func (w *runner) progress(i int) {
	if w.Progress == nil {
		return
	}
	var done, total time.Duration
	for n := range w.cases {
		length := time.Duration(cmp.Or(w.cases[n].length, w.experiment.Length))
		if total += length; n < i {
			done += length
		}
	}
	w.Progress(lab.Progress{Done: done, Total: total, Contender: w.cases[i].Title})
}
