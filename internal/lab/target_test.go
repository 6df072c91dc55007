package lab_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/testkit"
)

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
	if _, err := os.Stat(filepath.Join(dir, "trials.jsonl")); err != nil {
		t.Error(err)
	}
}
