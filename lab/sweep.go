package lab

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/tarehq/tare/lab/report"
	"github.com/tarehq/tare/lab/trial"
	"github.com/tarehq/tare/lab/yamlfile"
)

// Sweep is trials along one axis, beside the experiment's.
type Sweep struct {
	Axis        string       `yaml:"axis"` // report.GOMAXPROCS, report.Connections or report.Workers
	Values      []SweepValue `yaml:"values"`
	Cores       Cores        `yaml:"cores"`       // that the servers share; all if there is none
	Connections int          `yaml:"connections"` // unless they are the axis
	Contenders  []string     `yaml:"contenders"`

	// Blocks and Measure are those of the quick trials, at most the experiment's. With the full
	// trials there are as many blocks as the experiment has.
	Blocks  int               `yaml:"blocks"`
	Measure yamlfile.Duration `yaml:"measure"`
}

// SweepValue is a place on an axis; 0, which is all or auto in the file, is the number of the
// machine's processors.
type SweepValue int

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (v *SweepValue) UnmarshalYAML(n ast.Node) error {
	t := n.GetToken()
	if t.Value == "all" || t.Value == "auto" {
		*v = 0
		return nil
	}
	parsed, err := strconv.Atoi(t.Value)
	if err != nil || parsed < 1 {
		return &yaml.SyntaxError{Message: fmt.Sprintf("want a number from 1, all or auto, got %q", t.Value), Token: t}
	}
	*v = SweepValue(parsed)
	return nil
}

// mostProcs bounds GOMAXPROCS and workers: more can only be a slip.
const mostProcs = 1024

// check returns a *yamlfile.Error for a sweep that makes no sense.
func (s *Sweep) check(f *yamlfile.File, at string, contenders []string) error {
	most := mostProcs
	switch {
	case !slices.Contains(report.Axes(), s.Axis):
		return f.Fault(at+".axis", "axis %q: want one of %v", s.Axis, report.Axes())
	case len(s.Values) < 2:
		return f.Fault(at, "sweeps: want at least two values")
	case s.Axis == report.Connections:
		most = maxConnections
	case s.Connections < 1 || s.Connections > maxConnections:
		return f.Fault(at, "sweeps: connections: want 1 to %d, got %d", maxConnections, s.Connections)
	}
	for i, v := range s.Values {
		if int(v) > most || v == 0 && s.Axis == report.Connections {
			return f.Fault(fmt.Sprintf("%s.values[%d]", at, i), "values: want 1 to %d, got %d", most, v)
		}
	}
	if s.Blocks < 1 || s.Blocks > maxBlocks {
		return f.Fault(at, "sweeps: blocks: want 1 to %d, got %d", maxBlocks, s.Blocks)
	}
	if time.Duration(s.Measure) < minMeasure {
		return f.Fault(at, "sweeps: measure: want at least %v, got %v", minMeasure, time.Duration(s.Measure))
	}
	for i, name := range s.Contenders {
		if !slices.Contains(contenders, name) {
			return f.Fault(fmt.Sprintf("%s.contenders[%d]", at, i), "%q takes no part", name)
		}
	}
	if len(s.Contenders) == 0 {
		return f.Fault(at, "sweeps: want contenders")
	}
	return nil
}

// conditions are the places along the axis, from the lowest, with what they are called. cpus is
// how many processors there are.
func (s *Sweep) conditions(cpus int) (all []trial.Condition, labels []string) {
	values := slices.Clone(s.Values)
	for i := range values {
		values[i] = cmp.Or(values[i], SweepValue(cpus))
	}
	slices.Sort(values)
	whole := map[string]string{report.GOMAXPROCS: "all", report.Workers: "auto"}[s.Axis]
	for _, v := range slices.Compact(values) {
		c := trial.Condition{Cores: int(s.Cores), Connections: s.Connections, Axis: s.Axis}
		switch s.Axis {
		case report.GOMAXPROCS:
			c.Procs = int(v)
		case report.Workers:
			c.Workers = int(v)
		default:
			c.Connections = int(v)
		}
		label := strconv.Itoa(int(v))
		if int(v) == cpus && whole != "" && slices.Contains(s.Values, 0) {
			label += " (" + whole + ")"
		}
		all, labels = append(all, c), append(labels, label)
	}
	return all, labels
}

// What Options.Sweep may hold besides axes.
const (
	SweepAll = "all"
	SweepOff = "off"
)

// CheckSweep returns an error for what names neither an axis nor one of those.
func CheckSweep(names []string) error {
	for _, name := range names {
		if name != SweepAll && name != SweepOff && !slices.Contains(report.Axes(), name) {
			return fmt.Errorf("want %v, %s or %s, got %q", report.Axes(), SweepAll, SweepOff, name)
		}
	}
	return nil
}

// sweeps carries out those that were asked for, one after another.
func (w *weighing) sweeps(ctx context.Context) error {
	for i := range w.experiment.Sweeps {
		s := &w.experiment.Sweeps[i]
		if !w.asked(s.Axis) {
			continue
		}
		swept, measure := w.swept(s)
		if len(swept.Conditions) == 0 || len(swept.Contenders) == 0 {
			w.note("There is no sweep of %s: what it needs is not there.", s.Axis)
			continue
		}
		w.run.Sweeps = append(w.run.Sweeps, swept)
		members := func(trial.Condition) []string { return swept.Contenders }
		if err := w.aside(ctx, "while sweeping "+s.Axis, swept.Conditions, members, swept.Blocks, measure); err != nil {
			return err
		}
	}
	for _, axis := range w.Sweep {
		if axis != SweepOff && !w.run.HasSweep(axis) {
			w.say("%s has no sweep of %s", w.experiment.Name, axis)
		}
	}
	return nil
}

// asked reports whether an axis is to be swept.
func (w *weighing) asked(axis string) bool {
	if len(w.Sweep) == 0 {
		return w.Full
	}
	return !slices.Contains(w.Sweep, SweepOff) && (slices.Contains(w.Sweep, SweepAll) || slices.Contains(w.Sweep, axis))
}

// swept is a sweep as it can be carried out here.
func (w *weighing) swept(s *Sweep) (r report.Sweep, measure time.Duration) {
	r = report.Sweep{Axis: s.Axis, Blocks: min(s.Blocks, w.trials.Blocks)}
	if w.Full {
		r.Blocks = w.trials.Blocks
	}
	measure = min(time.Duration(s.Measure), time.Duration(w.trials.Measure))
	r.Measure = measure
	for _, name := range w.present() {
		if slices.Contains(s.Contenders, name) {
			r.Contenders = append(r.Contenders, name)
		}
	}
	if int(s.Cores) > len(w.cpus) {
		return r, measure
	}
	conditions, labels := s.conditions(len(w.cpus))
	files := openFiles()
	for i, c := range conditions {
		if uint64(c.Connections+trial.SpareFiles) > files {
			w.note("%d connections are not in the sweep: they need more open files than a process may have here.", c.Connections)
			continue
		}
		r.Conditions, r.Labels = append(r.Conditions, c), append(r.Labels, labels[i])
	}
	return r, measure
}

// sweepsProcs reports whether a sweep has the application on so many processors, whether or not
// there are as many.
func (e *Experiment) sweepsProcs(n Cores) bool {
	return slices.ContainsFunc(e.Sweeps, func(s Sweep) bool {
		return s.Axis == report.GOMAXPROCS && slices.Contains(s.Values, SweepValue(n))
	})
}
