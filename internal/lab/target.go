package lab

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// TargetsDir is the subfolder of experiments/ with the experiments of kind Targets.
const TargetsDir = "targets"

func (e *Experiment) targeted() (all []string) {
	for _, t := range []*Trials{&e.Quick, &e.Full} {
		for i := range t.Scenarios {
			all = append(all, t.Scenarios[i].members()...)
		}
	}
	return all
}

// members returns the contenders that the scenario's targets name, without duplicates.
func (s *Scenario) members() (all []string) {
	for _, t := range s.Targets {
		for _, name := range []string{t.Contender, t.Reference} {
			if name != "" && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// checkTargets returns a *yamlfile.Error for targets that do not belong to the kind.
func (e *Experiment) checkTargets(f *yamlfile.File) error {
	for key, t := range map[string]*Trials{"quick": &e.Quick, "full": &e.Full} {
		if e.Kind != Comparison && len(t.Connections) > 0 {
			return f.Fault("$."+key, "%s: an experiment of targets has scenarios", key)
		}
		for i := range t.Scenarios {
			at := fmt.Sprintf("$.%s.scenarios[%d]", key, i)
			isTarget, isProgram := len(t.Scenarios[i].Targets) > 0, t.Scenarios[i].isProgram()
			if isTarget != (e.Kind != Comparison) || isProgram != (e.Kind == Benchmarks) {
				return f.Fault(at, "scenarios: targets belong to each scenario of kind %s, and to no other; with benchmark or run to each of kind %s", Targets, Benchmarks)
			}
			for j := range t.Scenarios[i].Targets {
				if problem := e.targetProblem(&t.Scenarios[i].Targets[j]); problem != "" {
					return f.Fault(fmt.Sprintf("%s.targets[%d]", at, j), "targets: %s", problem)
				}
			}
		}
	}
	return nil
}

// targetProblem describes the first invalid value, or returns "".
func (e *Experiment) targetProblem(t *sample.Target) string {
	switch {
	case t.Contender == "":
		return "contender is missing"
	case e.Kind == Benchmarks && t.Metric == "":
		return "metric is missing (a unit such as ns/op)"
	case e.Kind == Benchmarks: // figures without a limit are compared
		return ""
	case !t.Metric.IsKnown():
		return fmt.Sprintf("unknown metric %q: want a percentile such as p90, or one of %q", t.Metric, sample.TargetMetrics())
	case t.Reference == "" && !t.Require.IsSet() && !t.Aim.IsSet():
		return "want reference, require or aim"
	case t.Require.IsSet() && t.Aim.IsSet() && t.Require.Least != t.Aim.Least:
		return "require and aim: want <= for both, or >="
	}
	return ""
}

func (e *Experiment) trials(full bool) *Trials {
	if full {
		return &e.Full
	}
	return &e.Quick
}

// Rows returns the names of the quick or the full trials' scenarios.
func (e *Experiment) Rows(full bool) (names []string) {
	t := e.trials(full)
	for i := range t.Scenarios {
		names = append(names, t.Scenarios[i].Name)
	}
	return names
}

// aloneBlocks is the number of blocks of contenders that are measured alone. An interval of whole
// trials needs more of them than one of slices.
const aloneBlocks = 15

// SetBlocks sets the number of blocks, of scenarios with their own, too.
func (t *Trials) SetBlocks(n int) {
	t.Blocks, t.areExact = n, true
	t.Scenarios = slices.Clone(t.Scenarios)
	for i := range t.Scenarios {
		t.Scenarios[i].Blocks = 0
	}
}

// runTargets measures the conditions one after another, each with the contenders of its targets.
func (w *runner) runTargets(ctx context.Context) error {
	w.addTargets()
	for i := range w.trials.Scenarios {
		s := &w.trials.Scenarios[i]
		for _, c := range w.run.Conditions {
			if c.Scenario.Name != s.Name {
				continue
			}
			if err := w.runRow(ctx, s, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *runner) addTargets() {
	for i := range w.trials.Scenarios {
		s := &w.trials.Scenarios[i]
		for _, t := range s.Targets {
			t.Row = s.Name
			w.run.Targets = append(w.run.Targets, t)
		}
	}
}

// runRow measures one condition: in blocks, and with the kernel's counters if targets need these.
func (w *runner) runRow(ctx context.Context, s *Scenario, c sample.Condition) error {
	blocks := cmp.Or(s.Blocks, w.trials.Blocks)
	most := blocks
	if !c.Scenario.Fresh && !w.trials.areExact {
		most = max(blocks, aloneBlocks)
	}
	isAlone := false
	err := w.carryOut(ctx, &series{
		what: " of " + s.Name, conditions: []sample.Condition{c}, blocks: most,
		measure: w.inTurns(time.Duration(w.trials.Measure), true,
			func(sample.Condition) []string { return s.members() }),
		keep: func(rec sample.Record) {
			w.run.Blocks = max(w.run.Blocks, rec.Block)
			w.keep(rec)
			isAlone = rec.Alone != "" // of the last block: one block alone may be a hiccup
		},
		enough: func(done int, _ time.Duration) bool { return done >= blocks && !isAlone },
	})
	if err != nil {
		return err
	}
	return w.countRow(ctx, s, c, blocks)
}

// countRow counts system calls of the contenders whose targets are about them.
func (w *runner) countRow(ctx context.Context, s *Scenario, c sample.Condition, blocks int) error {
	var names []string
	for _, name := range s.members() {
		isCounted := func(t sample.Target) bool {
			return t.Metric.IsCounted() && (t.Contender == name || t.Reference == name)
		}
		if w.contenders[name] != nil && slices.ContainsFunc(s.Targets, isCounted) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return w.count(ctx, " while counting of "+s.Name, names, []sample.Condition{c}, blocks)
}

// startBackend starts the scenarios' backend on the generator's processors. The applications find
// its URL in their environment.
func (w *runner) startBackend(ctx context.Context) (stop func() error, err error) {
	none := func() error { return nil }
	with := sample.First(w.trials.Scenarios, func(s *Scenario) bool { return s.Backend != "" })
	if with == nil {
		return none, nil
	}
	spec, err := w.spec(with.Backend)
	if err != nil {
		return none, err
	}
	c, err := w.Tools.Prepare(ctx, spec)
	if err != nil {
		return none, fmt.Errorf("backend: %w", err)
	}
	_, cpus := trial.Layout(w.cpus, 1)
	running, err := w.bench.Stage.Start(ctx, c,
		contender.Setting{Cores: max(1, len(cpus)), CPUs: cpus, Host: w.bench.Request.Host, Conf: w.bench.Conf},
		equal.Ready(c, w.bench.Request))
	if err != nil {
		return none, fmt.Errorf("backend: %w", err)
	}
	w.bench.Env = []string{"BACKEND=http://" + running.Address + "/"}
	return running.Stop, nil
}
