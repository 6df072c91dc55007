package lab_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/remote"
	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/yamlfile"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

func TestMalformedScenariosAreRejected(t *testing.T) {
	for _, test := range []struct{ name, scenarios, want string }{
		{"fine", "{name: a, connections: 8}, {name: b, version: \"2\", streams: 4, connections: 8, rate: 5}", ""},
		{"no name", "{connections: 8}", "want a name"},
		{"version", "{name: a, connections: 8, version: \"3\"}", `version: want "1.1" or "2", got "3"`},
		{"no connections", "{name: a}", "connections: want 1 to 18000, got 0"},
		{"streams", "{name: a, connections: 8, version: \"2\", streams: 101}", "streams: want 0 to 100"},
		{"streams of HTTP/1.1", "{name: a, connections: 8, streams: 4}", `streams: want 0 to 100, with version "2"`},
		{"handshakes", "{name: a, connections: 8, handshakes: half}", `handshakes: want full or resumed, got "half"`},
		{"handshakes at a rate", "{name: a, connections: 8, handshakes: full, rate: 5}",
			"handshakes exclude streams and rate"},
		{"rate", "{name: a, connections: 8, rate: -1}", "rate: want 0 to 10000000, got -1"},
		{"rate that is no number", "{name: a, connections: 8, rate: .nan}", "rate: want 0 to 10000000, got NaN"},
		{"twice", "{name: a, connections: 8}, {name: a, connections: 9}", `duplicate "a"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := strings.Replace(fine, "connections: [8]", "scenarios: ["+test.scenarios+"]", 1)
			if test.want != "" {
				readExperiment(t, text, "experiment.yaml:17: scenarios: "+test.want)
				return
			}
			e := readExperiment(t, text, "")
			all := e.Quick.Conditions()
			if len(all) != 2 || all[0].Scenario.Name != "a" || all[1].Rate != 5 || all[1].Scenario.Streams*all[1].Connections != 32 ||
				all[1].Cores != 1 {
				t.Errorf("got %+v", all)
			}
		})
	}
}

// Options that do not fit the scenarios are reported by their name, and others select scenarios.
func TestScenariosAreSelectedByName(t *testing.T) {
	for _, test := range []struct {
		o    lab.Options
		want lab.Option
	}{
		{lab.Options{Experiment: "tls", Adjust: func(all *lab.Trials) { all.Connections = []int{8} }}, lab.OptionConnections},
		{lab.Options{Experiment: "tls", Scenarios: []string{"HTTP/4"}}, lab.OptionScenarios},
		{lab.Options{Experiment: "front", Scenarios: []string{"HTTP/2"}}, lab.OptionScenarios},
		// Another machine generates no load beside a scenario's own.
		{lab.Options{Experiment: "targets/server", Scenarios: []string{"one-in-ten-sleeps"}, Generator: new(remote.Generator)},
			lab.OptionGenerator},
	} {
		test.o.Root = programs.Root(t)
		_, err := lab.Prepare(t.Context(), test.o)
		if usage, ok := errors.AsType[*lab.UsageError](err); !ok || usage.Option != test.want {
			t.Errorf("%s: got %v, want an error of %s", test.o.Experiment, err, test.want)
		}
	}
	o := lab.Options{Root: programs.Root(t), Only: []string{"greeting-tare-tls"}}
	o.Experiment, o.Scenarios = "tls", []string{"full handshakes", "HTTP/2"}
	run := testkit.Value(lab.Prepare(t.Context(), o))(t)
	var got []string
	for _, c := range run.Conditions {
		got = append(got, c.Scenario.Name)
	}
	testkit.Equal(t, got, o.Scenarios)
}

// Scenarios of the experiment tls are measured, briefly and with few connections: one of each kind,
// and with TARE_SLOW=1 all.
func TestScenariosOfTLSAreMeasured(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	testkit.NoRace(t, slowWithRace)
	kinds := []string{"HTTP/2 of 32 streams", "bodies of 1 MB by HTTP/1.1", "full handshakes", "resumed handshakes",
		"idle connections of HTTP/2"}
	if testkit.Slow() {
		kinds = nil
	}
	run, _, err := lab.Weigh(t.Context(), lab.Options{
		Root: programs.Root(t), Experiment: "tls", Only: []string{"greeting-tare-tls"}, Scenarios: kinds,
		Out: filepath.Join(t.TempDir(), "tls"),
		Adjust: func(all *lab.Trials) {
			all.Blocks, all.Warmup, all.Cores = 1, 0, []lab.Cores{0}
			all.Measure = yamlfile.Duration(200 * time.Millisecond)
			all.Scenarios = slices.Clone(all.Scenarios)
			for i := range all.Scenarios {
				all.Scenarios[i].Connections = min(all.Scenarios[i].Connections, 8)
			}
		},
		Logf: t.Logf,
	})
	testkit.Must(t, err)
	measured := make(map[string]int) // contenders with responses by scenario
	for _, r := range run.Records {
		if r.Failure != "" || r.Load.Errors.Total() > 0 {
			t.Errorf("%s, %+v: failed: %s, %+v", r.Contender, r.Condition, r.Failure, r.Load)
			continue
		}
		if r.Timed() && r.Load.Requests > 0 {
			measured[r.Scenario.Name]++
		}
		testkit.Equal(t, r.Load.Resumed > 0, r.Scenario.Handshakes == "resumed", r.Contender, r.Scenario.Name, "resumed")
	}
	const contenders = 3 // with the twin
	for _, c := range run.Conditions {
		testkit.Equal(t, measured[c.Scenario.Name], contenders, "contenders measured in", c.Scenario.Name)
	}
	checkScenarioNotes(t, run)
}

// checkScenarioNotes checks the units in the tables of some scenarios.
func checkScenarioNotes(t *testing.T, run *sample.Run) {
	t.Helper()
	a := report.New(run)
	if len(a.Tables) != len(run.Conditions) {
		t.Fatalf("%d tables of %d conditions", len(a.Tables), len(run.Conditions))
	}
	want := map[string]string{
		"HTTP/2 of 32 streams":       "Requests per CPU-second: net/http ",
		"bodies of 1 MB by HTTP/1.1": "MB of bodies per CPU-second: net/http ",
		"full handshakes":            "Connections per CPU-second, with a full handshake and a request each: net/http ",
		"idle connections of HTTP/2": "Resident memory in KB, divided by connections: net/http ",
	}
	for i, c := range run.Conditions {
		if note := a.Tables[i].ScenarioNote(); !strings.HasPrefix(note, want[c.Scenario.Name]) {
			t.Errorf("%s: %q, want %q", c.Scenario.Name, note, want[c.Scenario.Name])
		}
		delete(want, c.Scenario.Name)
	}
	for name := range want {
		t.Errorf("%s: no table", name)
	}
}
