package lab

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/sample"
)

// Scenario is a condition that differs from others in more than cores and connections.
type Scenario struct {
	Name        string  `yaml:"name"`        // as it stands after "with" in reports
	Version     string  `yaml:"version"`     // of HTTP: "1.1" or "2"; "" is the experiment's
	Path        string  `yaml:"path"`        // "" is the experiment's
	Connections int     `yaml:"connections"` // of the generator
	Streams     int     `yaml:"streams"`     // concurrent ones of each HTTP/2 connection; 0 is one
	Handshakes  string  `yaml:"handshakes"`  // trial.Full or trial.Resumed: each request has its own TLS connection
	Rate        float64 `yaml:"rate"`        // requests per second of all connections; 0 is saturation
}

// condition returns the scenario as a condition without cores.
func (s *Scenario) condition() sample.Condition {
	return sample.Condition{Connections: s.Connections, Rate: s.Rate, Scenario: sample.Scenario{
		Name: s.Name, Version: s.Version, Path: s.Path, Streams: s.Streams, Handshakes: s.Handshakes,
	}}
}

// maxStreams limits the concurrent streams of a connection. Servers allow 100 to 250.
const maxStreams = 100

// problem describes the first invalid value, or returns "".
func (s *Scenario) problem() string {
	switch {
	case s.Name == "":
		return "want a name"
	case s.Version != "" && s.Version != "1.1" && s.Version != equal.HTTP2:
		return fmt.Sprintf("version: want %q or %q, got %q", "1.1", equal.HTTP2, s.Version)
	case s.Path != "" && !strings.HasPrefix(s.Path, "/"):
		return fmt.Sprintf("path: want a slash at its beginning, got %q", s.Path)
	case s.Connections < 1 || s.Connections > maxConnections:
		return fmt.Sprintf("connections: want 1 to %d, got %d", maxConnections, s.Connections)
	case s.Streams < 0 || s.Streams > maxStreams:
		return fmt.Sprintf("streams: want 0 to %d, got %d", maxStreams, s.Streams)
	case s.Streams > 1 && s.Version != equal.HTTP2:
		return fmt.Sprintf("streams: want version %q", equal.HTTP2)
	case s.Handshakes != "" && s.Handshakes != sample.Full && s.Handshakes != sample.Resumed:
		return fmt.Sprintf("handshakes: want %s or %s, got %q", sample.Full, sample.Resumed, s.Handshakes)
	case s.Handshakes != "" && (s.Streams > 1 || s.Rate > 0):
		return "handshakes: excludes streams and rate"
	case s.Rate < 0 || s.Rate > mostRate:
		return fmt.Sprintf("rate: want 0 to %d, got %v", mostRate, s.Rate)
	}
	return ""
}

// scenarioFault returns the first invalid value of the scenarios, or nil.
func (t *Trials) scenarioFault() *trialsFault {
	if len(t.Connections) > 0 {
		return &trialsFault{OptionConnections, -1, "the scenarios determine them"}
	}
	for i := range t.Scenarios {
		s := &t.Scenarios[i]
		if problem := s.problem(); problem != "" {
			return &trialsFault{OptionScenarios, i, problem}
		}
		if slices.ContainsFunc(t.Scenarios[:i], func(o Scenario) bool { return o.Name == s.Name }) {
			return &trialsFault{OptionScenarios, i, fmt.Sprintf("duplicate %q", s.Name)}
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
			return usageErrorf(OptionScenarios, "%q is not in %s; want %s", name, w.experiment.Name, t.scenarioNames())
		}
		kept = append(kept, t.Scenarios[i])
	}
	t.Scenarios = kept
	return nil
}

// scenarioNames returns the names of all scenarios, for a message.
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

// mostConnections returns the highest number of connections of a condition.
func (t *Trials) mostConnections() int {
	most := 0
	for _, c := range t.Conditions() {
		most = max(most, c.Connections)
	}
	return most
}

// requests returns the different requests of the conditions; the experiment's own is the first.
func (w *runner) requests() []equal.Request {
	all := []equal.Request{w.experiment.request()}
	same := func(a, b equal.Request) bool {
		return a.Path == b.Path && cmp.Or(a.Version, "1.1") == cmp.Or(b.Version, "1.1") &&
			a.PerConnection == b.PerConnection && a.Resume == b.Resume
	}
	for i := range w.run.Conditions {
		r := w.run.Conditions[i].Scenario.Request(all[0])
		if !slices.ContainsFunc(all, func(other equal.Request) bool { return same(r, other) }) {
			all = append(all, r)
		}
	}
	return all
}

// keepBodies remembers the expected bodies of the scenarios' paths.
func (w *runner) keepBodies(control []*equal.Response) {
	w.bench.Bodies = map[string][]byte{"": w.experiment.body(control[0])}
	if w.bench.Bodies[""] == nil {
		return
	}
	for i, r := range w.requests() {
		w.bench.Bodies[r.Path] = append([]byte{}, control[i].Body...)
	}
}
