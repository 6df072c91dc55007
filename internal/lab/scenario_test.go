package lab_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/analyze"
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

const fineTargets = `kind: targets
title: t
request: {method: GET, path: /, host: a.b}
expect: {status: 200, body: hello}
control: http
quick: &trials
  blocks: 1
  warmup: 20ms
  measure: 200ms
  cores: [1]
  scenarios:
    - {name: kept, connections: 4, header: ["A: b"], targets: [
        {contender: http, metric: cpu, reference: copy, require: <= 10, aim: <= 1}, {contender: http, metric: p50, require: <= 10}]}
    - {name: short, connections: 4, per_connection: 3, targets: [{contender: http, metric: rps, reference: copy}]}
    - {name: mixed, connections: 2, paths: [/a, /b], spaced: true, targets: [{contender: http, metric: p89.1, require: <= 10}]}
    - {name: beside, connections: 2, rate: 200, beside: [{path: /c, connections: 3}], backend: copy, targets: [
        {contender: http, metric: p99, reference: copy}]}
    - {name: idle, cores: all, connections: 50, idle: true, targets: [
        {contender: http, metric: bytes/conn, require: <= 1000000}, {contender: http, metric: resting cpu, require: <= 100}]}
full: *trials
`

func TestMalformedTargetsAreRejected(t *testing.T) {
	for _, test := range []struct{ name, from, to, want string }{
		{"fine", "", "", ""},
		{"kind", "kind: targets", "kind: goals", `experiment.yaml:1: kind "goals": want targets, benchmarks or events, or none`},
		{"comparison", "kind: targets\n", "ways: [http]\n", "targets belong to each scenario of kind targets, and to no other"},
		{"no targets", "{name: kept, connections: 4", "{name: none, connections: 4}\n    - {name: kept, connections: 4",
			"targets belong to each scenario"},
		{"metric", "metric: rps", "metric: speed",
			`targets: unknown metric "speed": want a percentile such as p90, or one of ["cpu" "rps"`},
		{"limit", "<= 10", "10", `experiment.yaml:13: "10": want <= or >= and a number above 0`},
		{"aim", "aim: <= 1", `aim: ">= 1"`, "require and aim: want <= for both, or >="},
		{"no limit", "metric: rps, reference: copy", "metric: rps", "want reference, require or aim"},
		{"idle and a rate", "idle: true", "idle: true, rate: 5", "idle excludes rate"},
		{"connections", "cores: [1]", "cores: [1]\n  connections: [8]", "an experiment of targets has scenarios"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := readExperiment(t, strings.Replace(fineTargets, test.from, test.to, 1), test.want)
			if test.want == "" {
				testkit.Equal(t, strings.Join(e.Contenders(), " "), "http copy")
			}
		})
	}
}

// Each kind of scenario yields the figures of its targets. Values mean nothing in a short run.
func TestTargetsAreMeasured(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	root := t.TempDir()
	testkit.WriteFile(t, filepath.Join(root, "experiments", "targets", "small", lab.ExperimentFile), fineTargets)
	for _, name := range []string{"http", "copy"} {
		writePlayer(t, root, name, "http {port}", "protocol: http")
	}
	run, dir, err := lab.Weigh(t.Context(), lab.Options{Root: root, Experiment: "targets/small"})
	testkit.Must(t, err)
	if !run.Complete() {
		t.Errorf("%q, %+v", run.Warnings, run.Entrants)
	}
	alone := map[string]bool{"beside": true, "idle": true}
	for i := range run.Records {
		r := &run.Records[i]
		if (r.Alone != "") != alone[r.Scenario.Name] || r.Contender == "twin" {
			t.Errorf("%s of %s: measured alone: %q", r.Contender, r.Scenario.Name, r.Alone)
		}
	}
	for _, r := range analyze.Analyze(run).Targets {
		if r.Standing == analyze.Unmeasured {
			t.Errorf("%s: %s: not measured", r.Row, r.Metric)
		}
	}
	testkit.Value(os.Stat(filepath.Join(dir, "trials.jsonl")))(t)
}

const regimes = `title: t
request: {method: GET, path: /, host: a.b}
expect: {status: 200, body: hello}
control: http
ways: [http, unix]
differs:
  - {what: bytes, contenders: [unix], why: records}
quick: {blocks: 1, measure: 200ms, cores: [1], connections: [4], gomaxprocs: [1, 3], rate: {share: 0.5}}
full: {blocks: 2, measure: 200ms, cores: [1], connections: [4]}
`

// Trials at a fixed rate follow those at saturation, whose conditions are all combinations.
func TestFixedRateFollowsSaturation(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	root := project(t)
	testkit.WriteFile(t, filepath.Join(root, "experiments", "small", lab.ExperimentFile),
		regimes)
	run, _, err := lab.Weigh(context.Background(), lab.Options{
		Root: root, Experiment: "small",
	})
	testkit.Must(t, err)
	if c := run.Conditions; len(c) != 3 || c[0].Rate > 0 || c[0].Procs != 1 || c[1].Procs != 3 || c[2].Rate <= 0 {
		t.Fatalf("conditions %+v", c)
	}
	testkit.Contains(t, strings.Join(run.Notes, " "), "requests/s is 50 % of what the slowest, ")
	trials := make(map[sample.Condition]int)
	for _, r := range run.Records {
		if !r.Timed() || r.Contender != "http" {
			continue
		}
		trials[r.Condition]++
		if due := r.Rate * r.Load.Seconds; (r.Rate > 0) != (r.Load.Generator.Lag != nil) ||
			(r.Rate > 0) != (r.Load.Due > 0) || r.Load.Due > 2+1.1*due {
			t.Errorf("%+v: %v were due, want at most %v", r.Condition, r.Load.Due, due)
		}
	}
	for _, c := range run.Conditions {
		testkit.Equal(t, trials[c], 1, "trials of the control under", c)
	}
	a := analyze.Analyze(run)
	if len(a.Tables) != 3 || len(a.Tables[0].Rows) != 3 {
		t.Errorf("%d tables", len(a.Tables))
	}
}
