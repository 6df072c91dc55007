package lab

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// Scenario is a condition that differs from others in more than cores and connections.
type Scenario struct {
	sample.Scenario `yaml:",inline"`

	Cores       *Cores   `yaml:"cores"`       // of the servers; nil is the trials'
	Connections int      `yaml:"connections"` // of the generator
	Rate        float64  `yaml:"rate"`        // requests per second of all connections; 0 is saturation
	Fields      []string `yaml:"header"`      // "Name: value" each, in addition to the experiment's

	trial.Shape `yaml:",inline"`

	// Backend is a contender that runs beside the generator. Applications find its URL in the
	// environment variable BACKEND. A run has at most one.
	Backend string `yaml:"backend"`

	ProgramRow `yaml:",inline"` // of programs that measure themselves

	Blocks  int             `yaml:"blocks"` // 0 is the trials'
	Targets []sample.Target `yaml:"targets"`
}

func (s *Scenario) condition() sample.Condition {
	form := s.Scenario
	form.Header = strings.Join(s.Fields, "\n")
	form.Fresh = s.Fresh || len(s.Beside) > 0 || s.Idle
	return sample.Condition{Connections: s.Connections, Rate: s.Rate, Scenario: form}
}

// maxStreams limits the concurrent streams of a connection. Servers allow 100 to 250.
const maxStreams = 100

// problem describes the first invalid value, or returns "". What it does not check, the generator
// rejects.
func (s *Scenario) problem() string {
	switch {
	case s.isProgram() && (len(s.Targets) == 0 || s.Benchmark == "" == (len(s.Run) == 0)):
		return "want name, targets, and benchmark or run"
	case s.Procs < 0 || s.Procs > maxProcs:
		return fmt.Sprintf("gomaxprocs: want 0 to %d, got %d", maxProcs, s.Procs)
	case s.Name == "":
		return "want a name"
	case s.isProgram():
		return ""
	case s.Version != "" && s.Version != "1.1" && s.Version != equal.HTTP2:
		return fmt.Sprintf("version: want %q or %q, got %q", "1.1", equal.HTTP2, s.Version)
	case s.Connections < 1 || s.Connections > maxConnections:
		return fmt.Sprintf("connections: want 1 to %d, got %d", maxConnections, s.Connections)
	case s.Streams < 0 || s.Streams > maxStreams || s.Streams > 1 && s.Version != equal.HTTP2:
		return fmt.Sprintf("streams: want 0 to %d, with version %q", maxStreams, equal.HTTP2)
	case s.Handshakes != "" && s.Handshakes != sample.Full && s.Handshakes != sample.Resumed:
		return fmt.Sprintf("handshakes: want %s or %s, got %q", sample.Full, sample.Resumed, s.Handshakes)
	case s.Handshakes != "" && (s.Streams > 1 || s.Rate > 0) || s.Idle && s.Rate > 0:
		return "handshakes exclude streams and rate, and idle excludes rate"
	case !(s.Rate >= 0 && s.Rate <= mostRate):
		return fmt.Sprintf("rate: want 0 to %d, got %v", mostRate, s.Rate)
	}
	return ""
}

// scenarioFault returns the first invalid value of the scenarios, or nil.
func (t *Trials) scenarioFault() *UsageError {
	if len(t.Connections) > 0 {
		return UsageErrorf(OptionConnections, "the scenarios determine them")
	}
	for i := range t.Scenarios {
		s := &t.Scenarios[i]
		problem := s.problem()
		if slices.ContainsFunc(t.Scenarios[:i], func(o Scenario) bool { return o.Name == s.Name }) {
			problem = cmp.Or(problem, fmt.Sprintf("duplicate %q", s.Name))
		}
		if problem != "" {
			return UsageErrorf(OptionScenarios, "%s", problem).at(i)
		}
	}
	return nil
}

// selectScenarios leaves out the scenarios whose names are not given. Without names it keeps all.
func (w *runner) selectScenarios() error {
	t, names := &w.trials, w.Options.Scenarios
	if len(names) == 0 {
		return nil
	}
	var kept []Scenario
	for _, name := range names {
		i := slices.IndexFunc(t.Scenarios, func(s Scenario) bool { return s.Name == name })
		if i < 0 {
			return UsageErrorf(OptionScenarios, "%q is not in %s; want %s", name, w.experiment.Name, t.scenarioNames())
		}
		kept = append(kept, t.Scenarios[i])
	}
	t.Scenarios = kept
	return nil
}

func (t *Trials) scenarioNames() string {
	var all []string
	for i := range t.Scenarios {
		all = append(all, strconv.Quote(t.Scenarios[i].Name))
	}
	if len(all) == 0 {
		return "numbers of connections: it has no scenarios"
	}
	return strings.Join(all, ", ")
}

// requests returns the different requests of the conditions; the experiment's own is the first.
func (w *runner) requests() []equal.Request {
	all := []equal.Request{w.experiment.request()}
	same := func(a, b equal.Request) bool {
		return a.Path == b.Path && cmp.Or(a.Version, "1.1") == cmp.Or(b.Version, "1.1") &&
			a.PerConnection == b.PerConnection && a.Resume == b.Resume
	}
	var wanted []equal.Request
	for i := range w.run.Conditions {
		wanted = append(wanted, w.run.Conditions[i].Scenario.Request(all[0]))
	}
	for i := range w.trials.Scenarios {
		form := w.trials.Scenarios[i].condition().Scenario
		paths := slices.Clone(w.trials.Scenarios[i].Paths)
		for _, b := range w.trials.Scenarios[i].Beside {
			paths = append(paths, b.Path)
		}
		for _, path := range paths {
			r := form.Request(all[0])
			r.Path = path
			wanted = append(wanted, r)
		}
	}
	for _, r := range wanted {
		if !slices.ContainsFunc(all, func(other equal.Request) bool { return same(r, other) }) {
			all = append(all, r)
		}
	}
	return all
}

func (w *runner) keepBodies(control []*equal.Response) {
	w.bench.Bodies = map[string][]byte{"": w.experiment.body(control[0])}
	if w.bench.Bodies[""] == nil {
		return
	}
	for i, r := range w.requests() {
		w.bench.Bodies[r.Path] = append([]byte{}, control[i].Body...)
	}
}

// Variant is a contender of one experiment: another contender with other settings of the
// experiment's nginx.conf.
type Variant struct {
	Of    string            `yaml:"of"` // its name in contenders/
	Title string            `yaml:"title"`
	About string            `yaml:"about"`
	Set   map[string]string `yaml:"set"`
}

// Spec returns a contender of the experiment: one of Specs, an engine, a variant, or one of the
// folder dir, which is in that of the project.
func (e *Experiment) Spec(dir, name string) (*contender.Spec, error) {
	if i := slices.IndexFunc(e.Specs, func(s *contender.Spec) bool { return s.Name == name }); i >= 0 {
		return e.Specs[i], nil
	}
	if x := e.engine(name); x != nil {
		return x.spec(e, filepath.Dir(dir)), nil
	}
	v, isVariant := e.Variants[name]
	found, err := contender.Find(dir, cmp.Or(v.Of, name))
	if err != nil {
		return nil, err
	}
	is := *found
	if is.Server != "" && is.Front != "" {
		is.About += ", " + cmp.Or(e.Upstream, "with keep-alive connections")
	}
	if isVariant {
		is.Name, is.Title, is.About = name, v.Title, cmp.Or(v.About, is.About)
		is.Server = cmp.Or(is.Server, found.Name)
		is.Set = make(map[string]string) // other contenders may have that of found
		maps.Copy(is.Set, found.Set)
		maps.Copy(is.Set, v.Set)
	}
	return &is, nil
}

func (w *runner) spec(name string) (*contender.Spec, error) {
	return w.experiment.Spec(filepath.Join(w.Root, "contenders"), name)
}

// checkVariants returns a *yamlfile.Error for the first invalid variant.
func (e *Experiment) checkVariants(f *yamlfile.File) error {
	for _, name := range slices.Sorted(maps.Keys(e.Variants)) {
		switch v := e.Variants[name]; {
		case !slices.Contains(e.Contenders(), name):
			return f.Fault("$.variants."+name, "variants: %q is not a contender of the experiment", name)
		case v.Of == "" || v.Title == "" || len(v.Set) == 0:
			return f.Fault("$.variants."+name, "variants: want of, title and set")
		}
	}
	return nil
}
