package lab_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/lab/yamlfile"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// Real load generators take turns against nginx, and the report compares the requests that they
// make of their own CPU time. The slow version runs all rows.
func TestLoadGeneratorsAreCompared(t *testing.T) {
	programs.Nginx(t)
	programs.Installed(t, "wrk", "wrk")
	root := programs.Root(t)
	o := lab.Options{
		Root: root, Experiment: "targets/generators", Scenarios: []string{"generator-wrk-64", "generator-siege-64"},
		Out: t.TempDir(), Logf: t.Logf, Tools: programs.Tools(t),
		Adjust: func(trials *lab.Trials) { trials.SetBlocks(1); trials.Measure = yamlfile.Duration(time.Second) },
	}
	if testkit.Slow() {
		o.Scenarios = nil
	}
	run, _, err := lab.Weigh(t.Context(), o)
	testkit.Must(t, err)
	a := report.New(run)
	for i := range a.Targets {
		r := &a.Targets[i]
		if e := run.Entrant(r.Reference); e.Absent != "" && r.Reference != contender.Wrk {
			t.Logf("without %s: %s", e.Title, e.Absent)
			continue
		}
		if r.Starts != 1 || !(r.Of > 0) || !(r.Than > 0) {
			t.Errorf("%s: %+v", r.Row, r)
		}
	}
	for _, r := range run.Records {
		testkit.Equal(t, r.Failure, "", r.Scenario.Name, "of", r.Contender)
	}
	if e := run.Entrant(contender.Wrk); len(e.Versions) != 1 || !strings.Contains(e.Versions[0], "wrk") {
		t.Errorf("%+v", e)
	}
}

// An output that is not as expected is a failure that shows the output.
func TestFailuresOfLoadGeneratorsAreReported(t *testing.T) {
	t.Parallel()
	programs.Nginx(t)
	root := programs.Root(t)
	for _, test := range []struct{ name, requests, errors, want string }{
		{"no number", `never (\d+)`, "", "no number of requests in its output: "},
		{"errors", `"requests": *(\d+)`, `"requests"`, "requests failed: "},
		{"none", `"timeout": *(\d+)`, "", "it made 0 requests: "},
	} {
		dir := benchmarkProject(t, strings.NewReplacer("REQUESTS", test.requests, "ERRORS", test.errors).Replace(loads))
		testkit.Must(t, os.Symlink(root+"/contenders", dir+"/contenders"))
		conf, err := os.ReadFile(root + "/experiments/targets/generators/nginx.conf")
		if err == nil {
			err = os.WriteFile(dir+"/experiments/x/nginx.conf", conf, 0o600)
		}
		testkit.Must(t, err)
		run, _, err := lab.Weigh(t.Context(),
			lab.Options{Root: dir, Experiment: "x", Tools: programs.Tools(t)})
		if err != nil || len(run.Records) != 1 || !strings.Contains(run.Records[0].Failure, test.want) {
			t.Errorf("%s: %+v, %v", test.name, run, err)
		}
	}
}

func TestMalformedLoadsAreRejected(t *testing.T) {
	valid := strings.NewReplacer("REQUESTS", `(\d+)`, "ERRORS", "x").Replace(loads)
	for old, test := range map[string]struct{ new, want string }{
		"run: {tare": {"run: {wrk", `scenarios: run: want names of engines, got "wrk"`},
		`run: {tare: "load {url} -t 1 -c 1 -d {seconds}s --json"}`: {"benchmark: A",
			"scenarios: benchmark requires module, and run requires server"},
		"needs: tare": {"needs: curl", "engines: want name, title, and needs, one of"},
		`(\d+)`:       {`\d+`, "requests: want a pattern with one group"},
		"'x'":         {"'('", "errors: "},
	} {
		readExperiment(t, strings.Replace(valid, old, test.new, 1), test.want)
	}
}

const loads = `kind: benchmarks
title: t
server: nginx-files
control: tare
engines:
  - {name: tare, title: tare, needs: tare, requests: 'REQUESTS', errors: 'ERRORS'}
quick: &trials
  blocks: 1
  measure: 1s
  scenarios:
  - {name: row, gomaxprocs: 1, run: {tare: "load {url} -t 1 -c 1 -d {seconds}s --json"}, targets: [
      {contender: tare, metric: requests/cpu-s, require: ">= 1"}]}
full: *trials
nginx: nginx.conf
`
