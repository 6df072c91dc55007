package benchmark

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// Limits of an experiment's values. Higher ones are typing errors.
const (
	maxBlocks = 10_000
	maxProcs  = 1024
	maxTime   = time.Hour
)

// Experiment is the content of an experiment.yaml of this kind: a question, engines, rows, trials.
type Experiment struct {
	lab.Head `yaml:",inline"`

	Module  string   `yaml:"module"` // the folder of the benchmarks' module, relative to the project's
	Server  string   `yaml:"server"` // the contender to which load generators send requests
	Control string   `yaml:"control"`
	Engines []Engine `yaml:"engines"`

	Targets []TargetRow `yaml:"targets"`
	Counts  []Count     `yaml:"counts"` // of targets

	Quick Trials `yaml:"quick"`
	Full  Trials `yaml:"full"`
}

// Engine is one of the compared libraries.
type Engine struct {
	Name    string `yaml:"name"`
	Title   string `yaml:"title"`
	Package string `yaml:"package"` // of its benchmarks, relative to the module's folder
	Prefix  string `yaml:"prefix"`  // of its benchmarks' names, after "Benchmark"
	Part    string `yaml:"part"`    // the sub-benchmark of each that is the engine's; "" is the whole
	Module  string `yaml:"module"`  // the module whose version is shown in addition to Go's

	// Needs is the load generator, in place of Package; see contender.LoadGenerators. Requests is a
	// pattern in its output, whose group is the number of requests. Errors is a pattern in it if
	// requests failed; "" is none.
	Needs    string `yaml:"needs"`
	Requests string `yaml:"requests"`
	Errors   string `yaml:"errors"`
}

// Trials determines how often each benchmark runs, and how long.
type Trials struct {
	Blocks int               `yaml:"blocks"`
	Time   yamlfile.Duration `yaml:"benchtime"`

	areExact bool // rows have no blocks of their own
}

// ReadExperiment reads the experiment in a folder. The errors are those of lab.Read.
func ReadExperiment(dir string) (*Experiment, error) {
	e := new(Experiment)
	return e, lab.Read(dir, e, &e.Head, e.check, lab.Benchmarks)
}

func (e *Experiment) check(f *yamlfile.File) error {
	switch {
	case e.Module == "" == (e.Server == ""):
		return f.Fault("$.module", "module is missing (the folder of the benchmarks), or server (of load generators)")
	case e.engine(e.Control) == nil:
		return f.Fault("$.control", "control: want the name of an engine, got %q", e.Control)
	case len(e.Rows()) == 0:
		return f.Fault("$.targets", "targets: want at least one row")
	}
	for i, a := range e.Engines {
		if what := a.fault(e.Server != ""); what != "" {
			return f.Fault(fmt.Sprintf("$.engines[%d]", i), "engines: %s", what)
		}
		for _, b := range e.Engines[:i] {
			if a.Name == b.Name {
				return f.Fault(fmt.Sprintf("$.engines[%d]", i), "engines: duplicate %q", a.Name)
			}
		}
	}
	for i, row := range e.Rows() {
		if slices.Contains(e.Rows()[:i], row) {
			return f.Fault("$.targets", "targets: duplicate row %q", row)
		}
	}
	for _, t := range []struct {
		key string
		*Trials
	}{{"quick", &e.Quick}, {"full", &e.Full}} {
		if key, fault := t.fault(); fault != nil {
			return f.Fault("$."+t.key+"."+string(key), "%s: %s: %v", t.key, key, fault)
		}
	}
	return e.checkTargets(f)
}

// fault describes the first invalid value of a library, or of a load generator.
func (e *Engine) fault(isTool bool) string {
	if !isTool {
		if e.Name == "" || e.Title == "" || e.Package == "" {
			return "want name, title and package"
		}
		if e.Needs != "" {
			return "needs: load generators also need server, outside engines"
		}
		return ""
	}
	requests, err := regexp.Compile(e.Requests)
	_, errorsErr := regexp.Compile(e.Errors)
	switch all := contender.LoadGenerators(); {
	case e.Name == "" || e.Title == "" || !slices.Contains(all, e.Needs):
		return fmt.Sprintf("want name, title, and needs, one of %s", strings.Join(all, ", "))
	case err != nil || requests.NumSubexp() != 1:
		return "requests: want a pattern with one group, the number of requests"
	case errorsErr != nil:
		return "errors: " + errorsErr.Error()
	}
	return ""
}

// fault returns the first invalid value's key and error.
func (t *Trials) fault() (key lab.Option, fault error) {
	switch {
	case t.Blocks < 1 || t.Blocks > maxBlocks:
		return lab.OptionBlocks, fmt.Errorf("want 1 to %d, got %d", maxBlocks, t.Blocks)
	case t.Time <= 0:
		return lab.OptionBenchTime, fmt.Errorf("want a time such as 200ms, got %v", time.Duration(t.Time))
	case time.Duration(t.Time) > maxTime:
		return lab.OptionBenchTime, fmt.Errorf("want at most %v, got %v", maxTime, time.Duration(t.Time))
	}
	return "", nil
}

func (e *Experiment) engine(name string) *Engine {
	i := slices.IndexFunc(e.Engines, func(x Engine) bool { return x.Name == name })
	if i < 0 {
		return nil
	}
	return &e.Engines[i]
}

// Rows returns the names of all rows.
func (e *Experiment) Rows() (all []string) {
	for _, r := range e.Targets {
		all = append(all, r.Name)
	}
	return all
}
