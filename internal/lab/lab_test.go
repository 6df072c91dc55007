package lab_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/yamlfile"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

const fine = `title: t
question: q
request: {method: GET, path: /, host: a}
expect: {status: 200, body: hello}
control: one
ways: [one, two]
rivals: [three]
ceiling: four
differs:
  - what: field Server
    contenders: [two]
    why: because
quick:
  blocks: 6
  measure: 1s
  cores: [1]
  connections: [8]
full:
  blocks: 6
  measure: 1s
  cores: [1, all]
  connections: [8, 9]
`

func TestMalformedExperimentsAreRejected(t *testing.T) {
	for _, test := range []struct{ name, from, to, want string }{
		{"fine", "", "", ""},
		{"no title", "title: t\n", "", "title is missing"},
		{"variant", "control: one", "variants: {two: {of: x, title: t, set: {a: b}}}\ncontrol: one", ""},
		{"variant without settings", "control: one", "variants: {two: {of: x, title: t}}\ncontrol: one",
			"experiment.yaml:5: variants: want of, title and set"},
		{"foreign variant", "control: one", "variants: {five: {of: x, title: t, set: {a: b}}}\ncontrol: one",
			`experiment.yaml:5: variants: "five" is not a contender of the experiment`},
		{"unknown key", "control:", "contrl:", `experiment.yaml:5: unknown field "contrl"`},
		{"no control", "control: one\n", "", "control is missing"},
		{"foreign control", "control: one", "control: five",
			`experiment.yaml:5: control "five" is not one of the ways`},
		{"no host", ", host: a", "", "experiment.yaml:3: request: want method, path and host"},
		{"no status", "status: 200, ", "", "experiment.yaml:4: expect: status is missing"},
		{"version", "control: one", "load: {version: \"0.9\"}\ncontrol: one",
			`experiment.yaml:5: version "0.9": want "1.0" or "1.1"`},
		{"per connection", "control: one", "load: {per_connection: -1}\ncontrol: one", "experiment.yaml:5: per_connection: want 0 to 1000000, got -1"},
		{"shape", "control: one", "load: {version: \"1.0\", per_connection: 3, header: [\"Connection: Keep-Alive\"]}\ncontrol: one", ""},
		{"foreign difference", "[two]\n    why", "[six]\n    why", `experiment.yaml:11: "six" is not a contender of the experiment`},
		{"no reason", "    why: because\n", "", "differs: want what and why"},
		{"no blocks", "blocks: 6\n  measure: 1s\n  cores: [1]\n", "measure: 1s\n  cores: [1]\n",
			"blocks: want 1 to 10000, got 0"},
		{"too short", "measure: 1s\n  cores: [1]\n", "measure: 1ms\n  cores: [1]\n",
			"experiment.yaml:15: measure: want at least 200ms, got 1ms"},
		{"no cores", "  cores: [1]\n", "", "cores: want at least one number of cores, or all"},
		{"odd cores", "cores: [1]", "cores: [none]", `experiment.yaml:16: want a number of cores or all, got "none"`},
		{"too many", "[8]", "[8, 99999]", "experiment.yaml:17: connections: want 1 to 18000, got 99999"},
		{"no connections", "  connections: [8]\n", "", "connections: want at least one number of connections"},
		{"twice", "[8]", "[8, 8]", "experiment.yaml:17: connections: duplicate 8"},
		{"cores twice", "[1, all]", "[all, all]", "experiment.yaml:21: cores: duplicate all"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := readExperiment(t, strings.Replace(fine, test.from, test.to, 1), test.want)
			if test.want == "" && (strings.Join(e.Contenders(), " ") != "one two three four" ||
				len(e.Full.Conditions()) != 4 || e.Full.Conditions()[2].Cores != 0) {
				t.Errorf("%+v", e)
			}
		})
	}
}

// readExperiment reads an experiment, whose error must contain want. If want is "", there must be none.
func readExperiment(t *testing.T, file, want string) *lab.Experiment {
	t.Helper()
	dir := t.TempDir()
	testkit.WriteFile(t, filepath.Join(dir, lab.ExperimentFile), file)
	e, err := lab.ReadExperiment(dir)
	if want == "" {
		testkit.Must(t, err)
		return e
	}
	testkit.As[*yamlfile.Error](t, err, want)
	return e
}

func TestProjectExperimentsAndContendersAreValid(t *testing.T) {
	root := programs.Root(t)
	all := testkit.Value(lab.ReadExperiments(filepath.Join(root, "experiments"), lab.Comparison))(t)
	targets := testkit.Value(lab.ReadExperiments(filepath.Join(root, "experiments", lab.TargetsDir)))(t)
	rows := make(map[string]string) // experiments by their rows, which have different names
	for _, e := range targets {
		for _, row := range e.Rows(false) {
			testkit.Equal(t, rows[row], "", row, "is also a row of")
			rows[row] = e.Name
		}
	}
	for _, e := range append(all, targets...) {
		if e.Kind == lab.Benchmarks {
			continue // its engines have no folder
		}
		for _, c := range e.Contenders() {
			testkit.Value(e.Spec(filepath.Join(root, "contenders"), c))(t)
		}
		if e.Nginx != "" {
			testkit.Value(contender.ParseNginxConf(filepath.Join(e.Dir, e.Nginx)))(t)
		}
	}
}

// Every contender of the project belongs to an experiment, builds, responds like the control or as
// declared, and serves under load. The slow version of the test runs a contender in all its
// experiments, at saturation. The normal one runs it in the first, at a low rate.
func TestProjectContendersServe(t *testing.T) {
	testkit.NoRace(t, slowWithRace)
	programs.Nginx(t)
	root, tools := programs.Root(t), programs.Tools(t)
	all := testkit.Value(lab.ReadExperiments(filepath.Join(root, "experiments"), lab.Comparison))(t)
	targets, err := lab.ReadExperiments(filepath.Join(root, "experiments", lab.TargetsDir), lab.Targets)
	testkit.Must(t, err)
	seen := make(map[string]bool)
	for _, e := range append(all, targets...) {
		name := e.Name
		if e.Kind == lab.Targets {
			name = "targets/" + name
		}
		var only []string
		for _, c := range e.Contenders() {
			if !seen[c] {
				only = append(only, c)
			}
			seen[c] = true
		}
		if testkit.Slow() {
			only = nil
		} else if len(only) == 0 && strings.HasPrefix(name, "targets/") {
			continue // they differ from other experiments in their conditions
		} else if len(only) == 0 {
			only = e.Contenders()[len(e.Contenders())-1:]
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			weighBriefly(t, tools, name, only)
		})
	}
	if all, err = lab.ReadExperiments(filepath.Join(root, "experiments"), lab.Events); err != nil {
		t.Fatal(err)
	}
	for _, e := range all { // package events has their tests
		for _, c := range e.Events.Cases {
			seen[c.Contender] = true
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "contenders", "*", contender.FileName))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if name := filepath.Base(filepath.Dir(f)); !seen[name] {
			t.Errorf("%s is in no experiment", name)
		}
	}
}

// slowWithRace is why some tests run without the race detector only.
// TestWeighComparesFastCGIAndIsolatesFailures and its neighbors run the same code with it.
const slowWithRace = "it multiplies the CPU time of the load"

// weighBriefly runs one block of an experiment with some contenders and the control. If programs
// are missing, it skips the test, or fails if CI=true is set.
func weighBriefly(t *testing.T, tools *contender.Tools, name string, only []string) {
	run, _, err := lab.Weigh(context.Background(), lab.Options{
		Root: tools.Checkout, Experiment: name, Only: only, Out: filepath.Join(t.TempDir(), name), Tools: tools,
		Adjust: func(all *lab.Trials) {
			*all = lab.Trials{
				Blocks: 1, Measure: yamlfile.Duration(400 * time.Millisecond), Cores: []lab.Cores{0},
			}
			if testkit.Slow() {
				all.Connections = []int{4}
			} else { // nothing is counted at a fixed rate
				all.Scenarios = []lab.Scenario{{Scenario: sample.Scenario{Name: "briefly"}, Connections: 4, Rate: 200}}
			}
		},
		Logf: t.Logf,
	})
	testkit.Must(t, err)
	var lacking []string
	for _, e := range run.Entrants {
		switch {
		case strings.Contains(e.Absent, " is missing: ") && os.Getenv("CI") != "true":
			lacking = append(lacking, e.Name+": "+e.Absent)
		case e.Absent != "" || len(e.Versions) == 0:
			t.Errorf("%s: left out: %q; versions %v, response %+v", e.Name, e.Absent, e.Versions, e.Response)
		}
	}
	for _, r := range run.Records {
		if r.Failure != "" || r.Load.Errors.Total() > 0 {
			t.Errorf("%s failed: %s, %+v", r.Contender, r.Failure, r.Load)
		}
	}
	if len(lacking) > 0 {
		t.Skip(strings.Join(lacking, "; "))
	}
}

// A variant is another contender with its own name, title and settings. The other one is unchanged.
func TestVariantsChangeSettings(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	root := programs.Root(t)
	e := testkit.Value(lab.ReadExperiment(filepath.Join(root, "experiments", "compress")))(t)
	dir := filepath.Join(root, "contenders")
	variant := testkit.Value(e.Spec(dir, "nginx-gzip-1"))(t)
	of := testkit.Value(e.Spec(dir, "nginx-text-nethttp"))(t)
	if variant.Name != "nginx-gzip-1" || variant.Title != "nginx, gzip 1" || variant.Set["gzip"] != "1" ||
		variant.Run != of.Run || variant.Front != of.Front || variant.About != of.About {
		t.Errorf("%+v", variant)
	}
	if of.Name != "nginx-text-nethttp" || len(of.Set) != 0 {
		t.Errorf("%+v", of)
	}
}
