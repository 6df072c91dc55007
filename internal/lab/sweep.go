package lab

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// Sweep is a series of trials along one axis, in addition to the experiment's.
type Sweep struct {
	Axis        string       `yaml:"axis"` // one of sample.Axes
	Values      []SweepValue `yaml:"values"`
	Cores       Cores        `yaml:"cores"`       // of the servers; 0 is all
	Connections int          `yaml:"connections"` // unless they are the axis
	Contenders  []string     `yaml:"contenders"`

	// Blocks and Measure apply to the quick trials, and are at most the experiment's. In full
	// trials a sweep has as many blocks as the experiment.
	Blocks  int               `yaml:"blocks"`
	Measure yamlfile.Duration `yaml:"measure"`
}

// SweepValue is a point on an axis. 0 is the number of processors; the file writes it as all or
// auto.
type SweepValue int

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (v *SweepValue) UnmarshalYAML(n ast.Node) error {
	return yamlfile.Scalar(n, v, func(text string) (SweepValue, error) {
		if text == "all" || text == "auto" {
			return 0, nil
		}
		parsed, err := strconv.Atoi(text)
		if err != nil || parsed < 1 {
			return 0, fmt.Errorf("want a number from 1, all or auto, got %q", text)
		}
		return SweepValue(parsed), nil
	})
}

// mostProcs limits GOMAXPROCS and workers. A higher number is a typing error.
const mostProcs = 1024

// check returns a *yamlfile.Error for an invalid sweep.
func (s *Sweep) check(f *yamlfile.File, at string, e *Experiment) error {
	most := mostProcs
	switch {
	case !slices.Contains(sample.Axes(), s.Axis):
		return f.Fault(at+".axis", "axis %q: want one of %v", s.Axis, sample.Axes())
	case len(s.Values) < 2:
		return f.Fault(at, "sweeps: want at least two values")
	case s.Axis == sample.Connections:
		most = maxConnections
	case s.Connections < 1 || s.Connections > maxConnections:
		return f.Fault(at, "sweeps: connections: want 1 to %d, got %d", maxConnections, s.Connections)
	}
	for i, v := range s.Values {
		if int(v) > most || v == 0 && s.Axis == sample.Connections {
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
		if err := e.checkName(f, fmt.Sprintf("%s.contenders[%d]", at, i), "", name); err != nil {
			return err
		}
	}
	if len(s.Contenders) == 0 {
		return f.Fault(at, "sweeps: want at least one contender")
	}
	return nil
}

// conditions returns the points on the axis in ascending order. cpus is the number of processors.
func (s *Sweep) conditions(cpus int) (all []sample.Condition) {
	values := slices.Clone(s.Values)
	for i := range values {
		values[i] = cmp.Or(values[i], SweepValue(cpus))
	}
	slices.Sort(values)
	for _, v := range slices.Compact(values) {
		c := sample.Condition{Cores: int(s.Cores), Connections: s.Connections, Axis: s.Axis}
		switch s.Axis {
		case sample.GOMAXPROCS:
			c.Procs = int(v)
		case sample.Workers:
			c.Workers = int(v)
		default:
			c.Connections = int(v)
		}
		all = append(all, c)
	}
	return all
}

// Values of Options.Sweep besides axes.
const (
	SweepAll = "all"
	SweepOff = "off"
)

// CheckSweep returns an error for a name that is not an axis, SweepAll or SweepOff.
func CheckSweep(names []string) error {
	for _, name := range names {
		if name != SweepAll && name != SweepOff && !slices.Contains(sample.Axes(), name) {
			return fmt.Errorf("want %v, %s or %s, got %q", sample.Axes(), SweepAll, SweepOff, name)
		}
	}
	return nil
}

// sweeps carries out the requested sweeps, one after another.
func (w *runner) sweeps(ctx context.Context) error {
	for i := range w.experiment.Sweeps {
		s := &w.experiment.Sweeps[i]
		if !w.wantsSweep(s.Axis) {
			continue
		}
		swept := w.swept(s)
		if len(swept.Conditions) == 0 || len(swept.Contenders) == 0 {
			w.recorder.Note("There is no sweep of %s: its contenders or processors are missing.", s.Axis)
			continue
		}
		w.run.Sweeps = append(w.run.Sweeps, swept)
		members := func(sample.Condition) []string { return swept.Contenders }
		err := w.aside(ctx, "while sweeping "+s.Axis, swept.Conditions, members, swept.Blocks, swept.Measure)
		if err != nil {
			return err
		}
	}
	for _, axis := range w.Sweep {
		has := func(s sample.Sweep) bool { return s.Axis == axis || axis == SweepAll }
		if axis != SweepOff && !slices.ContainsFunc(w.run.Sweeps, has) {
			w.recorder.Log("%s has no sweep of %s", w.experiment.Name, axis)
		}
	}
	return nil
}

// wantsSweep reports whether the options request a sweep of an axis.
func (w *runner) wantsSweep(axis string) bool {
	if len(w.Sweep) == 0 {
		return w.Full
	}
	return !slices.Contains(w.Sweep, SweepOff) && (slices.Contains(w.Sweep, SweepAll) || slices.Contains(w.Sweep, axis))
}

// swept returns the part of a sweep that this machine and the remaining contenders allow.
func (w *runner) swept(s *Sweep) sample.Sweep {
	r := sample.Sweep{
		Axis: s.Axis, Blocks: min(s.Blocks, w.trials.Blocks),
		Measure: time.Duration(min(s.Measure, w.trials.Measure)),
	}
	if w.Full {
		r.Blocks = w.trials.Blocks
	}
	for _, name := range w.present() {
		if slices.Contains(s.Contenders, name) {
			r.Contenders = append(r.Contenders, name)
		}
	}
	if int(s.Cores) > len(w.cpus) {
		return r
	}
	files := trial.OpenFiles()
	for _, c := range s.conditions(len(w.cpus)) {
		if uint64(c.Connections+trial.SpareFiles) > files {
			w.recorder.Note("The sweep leaves out %d connections: they need more open files than the limit allows (ulimit -n).", c.Connections)
			continue
		}
		r.Conditions = append(r.Conditions, c)
	}
	return r
}

// sweepsProcs reports whether a sweep runs the application with GOMAXPROCS n, on however many
// processors.
func (e *Experiment) sweepsProcs(n Cores) bool {
	return slices.ContainsFunc(e.Sweeps, func(s Sweep) bool {
		return s.Axis == sample.GOMAXPROCS && slices.Contains(s.Values, SweepValue(n))
	})
}
