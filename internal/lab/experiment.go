package lab

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/events"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// ExperimentFile is the name of an experiment's file.
const ExperimentFile = "experiment.yaml"

// Kind is the kind of an experiment.
type Kind string

// The kinds of experiments.
const (
	Comparison Kind = ""           // contenders are compared with the control
	Targets    Kind = "targets"    // figures are compared with limits, each under its own condition
	Benchmarks Kind = "benchmarks" // programs that measure themselves; see Programs
	Events     Kind = "events"     // what clients receive is counted; see package events
)

// ErrNoExperiment is the error for a folder without an experiment.
var ErrNoExperiment = errors.New("no such experiment")

// Experiment is the content of an experiment.yaml: a question, contenders, trials.
type Experiment struct {
	Name string `yaml:"-"` // the folder's
	Dir  string `yaml:"-"`

	Kind     Kind   `yaml:"kind"`
	Title    string `yaml:"title"`
	Question string `yaml:"question"`
	Source   string `yaml:"source"` // the write-up that it repeats
	Nginx    string `yaml:"nginx"`  // a template, for contender.NginxConf; "" is own.conf

	Request struct {
		Method string `yaml:"method"`
		// Path may have expressions as in load.Plan, which change it from request to request.
		Path        string `yaml:"path"`
		ExamplePath string `yaml:"example"` // a path without expressions, which is requested before the load
		Host        string `yaml:"host"`
	} `yaml:"request"`
	Load   Load        `yaml:"load"`
	Expect Expectation `yaml:"expect"`

	// Conclusion is the verdict's first sentence. In place of a placeholder, such as {tare, nginx},
	// it has their ratios to the control; in place of the control's name, its CPU time per request.
	Conclusion string `yaml:"conclusion"`

	Control string   `yaml:"control"`
	Build   string   `yaml:"build"` // another build of the control
	Ways    []string `yaml:"ways"`
	Rivals  []string `yaml:"rivals"`
	Ceiling string   `yaml:"ceiling"`
	Differs []Differ `yaml:"differs"`

	Programs `yaml:",inline"`
	Events   events.Plan `yaml:",inline"`

	Compare  []sample.Comparison `yaml:"compare"`
	Variants map[string]Variant  `yaml:"variants"`    // contenders that differ in settings, by name
	Small    int                 `yaml:"small_files"` // number of small files in the folder that is served
	// Upstream describes the fronts' connections to the application; "" is "with keep-alive
	// connections".
	Upstream string `yaml:"upstream"`

	Quick Trials `yaml:"quick"`
	Full  Trials `yaml:"full"`

	Specs []*contender.Spec `yaml:"-"` // of contenders without a folder in contenders/
}

// Load is the form of the generator's requests, as a load tool of a write-up sends them.
type Load struct {
	Version       string   `yaml:"version"`        // of HTTP: "1.0" or "1.1", the default
	Header        []string `yaml:"header"`         // "Name: value" each
	PerConnection int      `yaml:"per_connection"` // requests on a connection; 0 is no limit
}

// Expectation is the right response of every contender.
type Expectation struct {
	By     string `yaml:"by"` // ByControl or ByStatus; "" compares with the values below
	Status int    `yaml:"status"`
	Body   string `yaml:"body"`
	SHA256 string `yaml:"sha256"` // of the body, in hexadecimal digits; replaces Body
}

// Values of Expectation.By.
const (
	ByControl = "control" // the control's response is right if its status is below 400
	ByStatus  = "status"  // any body is right
)

// Differ is a difference between responses that the experiment declares.
type Differ struct {
	What       string   `yaml:"what"`       // as in equal.Difference, or "fields" for all header fields
	Contenders []string `yaml:"contenders"` // none means all
	Why        string   `yaml:"why"`
}

// Trials determines the number, the length and the conditions of trials.
type Trials struct {
	Blocks      int               `yaml:"blocks"`
	Warmup      yamlfile.Duration `yaml:"warmup"`
	Measure     yamlfile.Duration `yaml:"measure"`
	Cores       []Cores           `yaml:"cores"`
	Connections []int             `yaml:"connections"`
	Procs       []int             `yaml:"gomaxprocs"` // none is as many as cores
	Scenarios   []Scenario        `yaml:"scenarios"`  // replace Connections
	Rate        Rate              `yaml:"rate"`       // of additional trials at a fixed rate

	areExact bool // the blocks were set, see SetBlocks
}

// Cores is a number of processors; 0 is "all".
type Cores int

func (c Cores) String() string {
	if c == 0 {
		return "all"
	}
	return strconv.Itoa(int(c))
}

// MarshalYAML implements yaml.InterfaceMarshaler.
func (c Cores) MarshalYAML() (any, error) {
	if c == 0 {
		return "all", nil
	}
	return int(c), nil
}

// ParseCores parses a number of processors, or "all".
func ParseCores(text string) (Cores, error) {
	if text == "all" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("want a number of cores or all, got %q", text)
	}
	return Cores(n), nil
}

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (c *Cores) UnmarshalYAML(n ast.Node) error { return yamlfile.Scalar(n, c, ParseCores) }

// Conditions returns every combination of cores, connections and GOMAXPROCS, or of cores and
// scenarios.
func (t *Trials) Conditions() (all []sample.Condition) {
	for i := range t.Scenarios {
		if s := &t.Scenarios[i]; s.isProgram() {
			all = append(all, sample.Condition{
				Procs: cmp.Or(s.Procs, runtime.NumCPU()), Scenario: sample.Scenario{Name: s.Name},
			})
		}
	}
	for _, cores := range t.Cores {
		for i := range t.Scenarios {
			c := t.Scenarios[i].condition()
			if c.Cores = int(cores); t.Scenarios[i].Cores != nil {
				c.Cores = int(*t.Scenarios[i].Cores)
			}
			if !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
		procs := t.Procs
		if len(procs) == 0 {
			procs = []int{0}
		}
		for _, n := range t.Connections {
			for _, p := range procs {
				all = append(all, sample.Condition{Cores: int(cores), Connections: n, Procs: p})
			}
		}
	}
	return all
}

// Contenders returns the names of all contenders, the control first.
func (e *Experiment) Contenders() []string {
	all := []string{e.Control}
	if e.Kind == Events {
		all = nil
		for _, c := range e.Events.Cases {
			all = append(all, c.Name)
		}
	}
	for _, name := range slices.Concat([]string{e.Build}, e.Ways, e.Rivals, []string{e.Ceiling}, e.targeted()) {
		if name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// ReadExperiment reads the experiment in a folder. The error is ErrNoExperiment if the file is
// missing, and a *yamlfile.Error if it is invalid.
func ReadExperiment(dir string) (*Experiment, error) {
	file, e := filepath.Join(dir, ExperimentFile), new(Experiment)
	f, err := yamlfile.Read(file, e)
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("%s: %w", file, ErrNoExperiment)
	}
	if err != nil {
		return e, err
	}
	e.Name, e.Dir = filepath.Base(dir), dir
	return e, e.check(f)
}

// ReadExperiments returns the experiments in a folder, of some kinds or of all, sorted by name.
func ReadExperiments(dir string, kinds ...Kind) (all []*Experiment, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", ExperimentFile))
	for _, f := range files {
		e, err := ReadExperiment(filepath.Dir(f))
		if err != nil {
			return nil, err
		}
		if len(kinds) == 0 || slices.Contains(kinds, e.Kind) {
			all = append(all, e)
		}
	}
	return all, err
}

// nginxConf parses the template of the fronts' configuration. The error is a *yamlfile.Error.
func (e *Experiment) nginxConf() (*template.Template, error) {
	if e.Nginx == "" {
		return contender.NewNginxConf("nginx.conf", ownNginxConf)
	}
	file := filepath.Join(e.Dir, e.Nginx)
	t, err := contender.ParseNginxConf(file)
	if err != nil {
		return nil, &yamlfile.Error{File: file, What: err.Error()}
	}
	return t, nil
}

func (e *Experiment) check(f *yamlfile.File) error {
	switch {
	case !slices.Contains([]Kind{Comparison, Targets, Benchmarks, Events}, e.Kind):
		return f.Fault("$.kind", "kind %q: want %s, %s or %s, or none for a comparison", e.Kind, Targets, Benchmarks, Events)
	case e.Title == "":
		return f.Fault("$.title", "title is missing")
	case e.Kind == Events:
		_, err := e.nginxConf()
		return cmp.Or(e.Events.Check(f), err)
	case len(e.Events.Cases)+len(e.Events.Groups)+len(e.Events.Streams.Kinds) > 0:
		return f.Fault("$.cases", "cases, clients and streams belong to the kind %s", Events)
	case e.Control == "":
		return f.Fault("$.control", "control is missing; ratios are relative to it")
	case e.Kind == Comparison && !slices.Contains(e.Ways, e.Control):
		return f.Fault("$.control", "control %q is not one of the ways", e.Control)
	case e.Kind == Benchmarks: // it has no request of its own
		return cmp.Or(e.checkTargets(f), e.checkTrials(f), e.checkPrograms(f))
	case len(e.Engines) > 0 || e.Module+e.Server != "":
		return f.Fault("$.engines", "engines, module and server belong to the kind %s", Benchmarks)
	case e.Request.Method == "" || e.Request.Path == "" || e.Request.Host == "":
		return f.Fault("$.request", "request: want method, path and host")
	case e.Request.ExamplePath == "" == strings.Contains(e.Request.Path, "{{"):
		return f.Fault("$.request", "request: want example, a path without expressions, if path has expressions, and not otherwise")
	case e.Small < 0 || e.Small > maxSmallFiles:
		return f.Fault("$.small_files", "small_files: want 0 to %d, got %d", maxSmallFiles, e.Small)
	}
	if err := cmp.Or(e.checkTargets(f), e.Load.check(f), e.Expect.check(f), e.checkVariants(f),
		e.checkConclusion(f)); err != nil {
		return err
	}
	for i, d := range e.Differs {
		at := fmt.Sprintf("$.differs[%d]", i)
		for j, name := range d.Contenders {
			if err := e.checkName(f, fmt.Sprintf("%s.contenders[%d]", at, j), "", name); err != nil {
				return err
			}
		}
		if d.What == "" || d.Why == "" {
			return f.Fault(at, "differs: want what and why")
		}
	}
	for i, c := range e.Compare {
		at := fmt.Sprintf("$.compare[%d]", i)
		if err := cmp.Or(e.checkName(f, at+".of", "", c.Of), e.checkName(f, at+".than", "", c.Than)); err != nil {
			return err
		}
		if c.What == "" {
			return f.Fault(at, "compare: want what, of and than")
		}
	}
	return e.checkTrials(f)
}

func (l *Load) check(f *yamlfile.File) error {
	if l.Version != "" && l.Version != "1.0" && l.Version != "1.1" {
		return f.Fault("$.load.version", "version %q: want %q or %q", l.Version, "1.0", "1.1")
	}
	if l.PerConnection < 0 || l.PerConnection > maxRequests {
		return f.Fault("$.load.per_connection", "per_connection: want 0 to %d, got %d", maxRequests, l.PerConnection)
	}
	return nil
}

func (e *Experiment) checkTrials(f *yamlfile.File) error {
	for _, t := range []struct {
		key string
		*Trials
	}{{"quick", &e.Quick}, {"full", &e.Full}} {
		if fault := t.fault(); fault != nil {
			return f.Fault("$."+t.key+"."+string(fault.Option)+fault.item, "%s", fault)
		}
	}
	return nil
}

// checkConclusion returns an error for a placeholder that names no contender.
func (e *Experiment) checkConclusion(f *yamlfile.File) (fault error) {
	sample.FillConclusion(e.Conclusion, func(names []string) string {
		for _, name := range names {
			fault = cmp.Or(fault, e.checkName(f, "$.conclusion", "conclusion: ", name))
		}
		return "a ratio"
	})
	return fault
}

// checkName returns an error at a path, about what, for a name that no contender has.
func (e *Experiment) checkName(f *yamlfile.File, path, about, name string) error {
	if slices.Contains(e.Contenders(), name) {
		return nil
	}
	return f.Fault(path, "%s%q is not a contender of the experiment", about, name)
}

func (t *Trials) runPrograms() bool {
	return slices.ContainsFunc(t.Scenarios, func(s Scenario) bool { return s.isProgram() })
}

// fault returns the first invalid value, or nil.
func (t *Trials) fault() *UsageError {
	switch {
	case t.Blocks < 1 || t.Blocks > maxBlocks:
		return UsageErrorf(OptionBlocks, "want 1 to %d, got %d", maxBlocks, t.Blocks)
	case t.Warmup < 0:
		return UsageErrorf(OptionWarmup, "want 0s or more, got %v", time.Duration(t.Warmup))
	case t.runPrograms() && time.Duration(t.Measure) > maxProgram:
		return UsageErrorf(OptionMeasure, "want at most %v, got %v", maxProgram, time.Duration(t.Measure))
	case t.runPrograms() && t.Measure > 0:
		return t.scenarioFault()
	case time.Duration(t.Measure) < minMeasure:
		return UsageErrorf(OptionMeasure, "want at least %v, got %v", minMeasure, time.Duration(t.Measure))
	case len(t.Cores) == 0:
		return UsageErrorf(OptionCores, "want at least one number of cores, or all")
	case len(t.Connections)+len(t.Scenarios) == 0:
		return UsageErrorf(OptionConnections, "want at least one number of connections")
	case t.Rate.Share < 0 || t.Rate.Share >= 1:
		return UsageErrorf(OptionRate, "want a share above 0 and below 1, got %v", t.Rate.Share)
	case t.Rate.Measure != 0 && time.Duration(t.Rate.Measure) < minMeasure:
		return UsageErrorf(OptionRate, "measure: want at least %v, got %v", minMeasure, time.Duration(t.Rate.Measure))
	}
	for i, n := range t.Cores {
		if slices.Contains(t.Cores[:i], n) {
			return UsageErrorf(OptionCores, "duplicate %v", n).at(i)
		}
	}
	for i, n := range t.Procs {
		if n < 1 || n > maxProcs {
			return UsageErrorf("gomaxprocs", "want 1 to %d, got %d", maxProcs, n).at(i)
		}
	}
	if len(t.Scenarios) > 0 {
		return t.scenarioFault()
	}
	for i, n := range t.Connections {
		if n < 1 || n > maxConnections {
			return UsageErrorf(OptionConnections, "want 1 to %d, got %d", maxConnections, n).at(i)
		}
		if slices.Contains(t.Connections[:i], n) {
			return UsageErrorf(OptionConnections, "duplicate %d", n).at(i)
		}
	}
	return nil
}

// Limits of an experiment's values. A trial shorter than minMeasure has too few clock ticks to tell
// user time from system time. Values beyond the others are typing errors.
const (
	maxBlocks      = 10_000
	minMeasure     = 200 * time.Millisecond
	maxConnections = 18_000
	maxSmallFiles  = 100_000
	maxProgram     = time.Hour
	maxProcs       = 1024
	maxRequests    = 1_000_000 // of a connection
)

func (e *Experiment) request() equal.Request {
	return equal.Request{
		Method: e.Request.Method, Path: cmp.Or(e.Request.ExamplePath, e.Request.Path), Host: e.Request.Host,
		Version: e.Load.Version, Header: e.Load.Header, PerConnection: e.Load.PerConnection,
	}
}
