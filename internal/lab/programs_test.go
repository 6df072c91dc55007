package lab_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/lab/yamlfile"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

func TestProjectBenchmarksRunAndAreRows(t *testing.T) {
	testkit.Long(t, "it runs benchmarks")
	root := programs.Root(t)
	all, err := lab.ReadExperiments(filepath.Join(root, "experiments"), lab.Benchmarks)
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for _, experiment := range all {
		name := experiment.Name
		benchmarks := make(map[string]bool)
		var once []string // a row of each benchmark
		for _, row := range experiment.Quick.Scenarios {
			if !benchmarks[row.Benchmark] {
				benchmarks[row.Benchmark], once = true, append(once, row.Name)
			}
		}
		run, _, err := lab.Weigh(context.Background(), lab.Options{
			Root: root, Experiment: name, Scenarios: once, Out: t.TempDir(), Adjust: func(trials *lab.Trials) {
				trials.SetBlocks(1)
				trials.Measure = yamlfile.Duration(time.Millisecond)
			},
		})
		testkit.Must(t, err)
		want := 0
		for i, e := range run.Entrants {
			engine := experiment.Engines[i]
			want += len(once)
			if e.Absent != "" || len(e.Versions) != map[bool]int{true: 1, false: 2}[engine.Module == ""] {
				t.Errorf("%s: left out: %q; versions %q", e.Title, e.Absent, e.Versions)
			}
			source, err := filepath.Glob(filepath.Join(root, "contenders", "engines", engine.Package, "*_test.go"))
			testkit.Must(t, err)
			testkit.Equal(t, count(t, source, "func Benchmark"), len(benchmarks), "benchmarks in rows, of", e.Title)
		}
		for _, r := range run.Records {
			if r.Failure != "" || r.Values["ns/op"] <= 0 {
				t.Errorf("%s of %s: %+v", r.Scenario.Name, r.Contender, r)
			}
		}
		if len(run.Records) != want || want == 0 {
			t.Errorf("%d benchmarks ran, want %d", len(run.Records), want)
		}
	}
}

func count(t *testing.T, files []string, what string) (n int) {
	t.Helper()
	for _, f := range files {
		b := testkit.Value(os.ReadFile(f))(t)
		n += strings.Count(string(b), what)
	}
	return n
}

// benchmarkProject makes a folder with an experiment of its own. The benchmarks of engine one
// succeed, some of two fail, and three does not compile.
func benchmarkProject(t *testing.T, experiment string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"experiments/x/experiment.yaml": experiment,
		"go.mod":                        "module example.org/m\n\ngo 1.24\n",
		"one/a_test.go":                 "package a\n\nimport \"testing\"\n\nfunc BenchmarkOneA(b *testing.B) {}\nfunc BenchmarkOneB(b *testing.B) {}\nfunc BenchmarkOneC(b *testing.B) {}\nfunc BenchmarkOneD(b *testing.B) {}\n",
		"two/a_test.go": `package a

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

func BenchmarkTwoA(b *testing.B) {}
func BenchmarkTwoB(b *testing.B) { b.Fatal("a wrong response") }
func BenchmarkTwoC(b *testing.B) { panic("out of order") }

func BenchmarkTwoD(b *testing.B) {
	if name := os.Getenv("TARE_TEST_PID"); name != "" {
		_ = os.WriteFile(name+".new", []byte(strconv.Itoa(os.Getpid())), 0o600)
		_ = os.Rename(name+".new", name)
		time.Sleep(time.Hour)
	}
	fmt.Println("and no result")
	os.Exit(0)
}
`,
		"three/a_test.go": "package a\n\nfunc f() { undefinedName() }\n",
	} {
		testkit.WriteFile(t, filepath.Join(root, name), text)
	}
	return root
}

const small = `kind: benchmarks
title: t
question: q
source: s
module: .
control: one
engines:
  - {name: one, title: One, package: ./one, prefix: One}
  - {name: two, title: Two, package: ./two, prefix: Two}
  - {name: three, title: Three, package: ./three, prefix: Three}
quick:
  blocks: 3
  measure: 1ns
  scenarios: &rows
    - {name: A, benchmark: A, gomaxprocs: 1, targets: &t [{contender: two, metric: ns/op, reference: one}, {contender: three, metric: ns/op}]}
    - {name: B, benchmark: B, gomaxprocs: 2, targets: *t}
    - {name: C, benchmark: C, targets: *t}
    - {name: D, benchmark: D, gomaxprocs: 1, targets: *t}
full: {blocks: 6, measure: 1ns, scenarios: *rows}
`

// A failed benchmark is reported, tried twice, and does not affect the others.
func TestFailuresAreIsolated(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it runs benchmarks")
	root := benchmarkProject(t, small)
	var messages []string
	run, dir, err := lab.Weigh(context.Background(), lab.Options{
		Root: root, Experiment: "x", Logf: func(format string, _ ...any) { messages = append(messages, format) },
	})
	testkit.Must(t, err)
	ran := make(map[string]int)
	for _, r := range run.Records {
		name := r.Contender + r.Scenario.Name
		ran[name]++
		want := map[string]string{
			"twoB": "a wrong response", "twoC": "panic: out of order",
			"twoD": "no result in its output: and no result",
		}[name]
		if (r.Failure != "") != (want != "") || !strings.Contains(r.Failure, want) {
			t.Errorf("%s failed with %q, want %q", name, r.Failure, want)
		}
	}
	for name, want := range map[string]int{
		"oneA": 3, "oneB": 3, "oneC": 3, "oneD": 3, "twoA": 3, "twoB": 2, "twoC": 2, "twoD": 2,
	} {
		testkit.Equal(t, ran[name], want, "runs of", name)
	}
	if three := run.Entrants[2]; !strings.Contains(three.Absent, "undefined: undefinedName") || run.Complete() {
		t.Errorf("an engine that does not compile is left out with %q", three.Absent)
	}
	a := report.New(run)
	text := a.Text()
	testkit.Must(t, a.WriteFiles(dir))
	for _, want := range []string{
		"LEFT OUT: Three: build: go test -c -o ", "FAILED: B of Two: ",
	} {
		testkit.Contains(t, text, want, "the report")
	}
}

func TestInterruptEndsRunningBenchmark(t *testing.T) {
	testkit.Long(t, "it runs benchmarks")
	root := benchmarkProject(t, small)
	pidFile := filepath.Join(root, "pid")
	t.Setenv("TARE_TEST_PID", pidFile)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(pidFile); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	run, _, err := lab.Weigh(ctx, lab.Options{Root: root, Experiment: "x", Only: []string{"two"}, Scenarios: []string{"D"}})
	if !errors.Is(err, context.Canceled) || run == nil || run.Complete() {
		t.Errorf("got %v, want the run until then and %v", err, context.Canceled)
	}
	b := testkit.Value(os.ReadFile(pidFile))(t)
	pid := testkit.Value(strconv.Atoi(string(b)))(t)
	testkit.Is(t, syscall.Kill(pid, 0), syscall.ESRCH, "process", pid)
}

func TestSeedDeterminesOrderAndBlockRunsEachBenchmarkOnce(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it runs benchmarks")
	root := benchmarkProject(t, small)
	var orders [3][]string
	for i, seed := range []uint64{7, 7, 8} {
		run, _, err := lab.Weigh(context.Background(), lab.Options{
			Root: root, Experiment: "x", Scenarios: []string{"A", "B", "C"}, Seed: seed,
			Out: filepath.Join(root, strconv.Itoa(i)), Adjust: func(trials *lab.Trials) { trials.Blocks = 1 },
		})
		testkit.Must(t, err)
		for _, r := range run.Records {
			orders[i] = append(orders[i], r.Contender+r.Scenario.Name+strconv.Itoa(r.Procs))
		}
	}
	sorted := func(s []string) []string { return slices.Sorted(slices.Values(s)) }
	if !slices.Equal(orders[0], orders[1]) || slices.Equal(orders[0], orders[2]) ||
		!slices.Equal(sorted(orders[0]), sorted(orders[2])) || len(orders[0]) != 6 {
		t.Errorf("orders: %q", orders)
	}
}

func TestMalformedProgramsAreRejected(t *testing.T) {
	for name, test := range map[string]struct{ old, new, want string }{
		"no title":        {"title: t\n", "", "title is missing"},
		"no module":       {"module: .\n", "", "module is missing"},
		"unknown key":     {"source: s", "sauce: s", "experiment.yaml:4:"},
		"unknown control": {"control: one", "control: four", `engines: want names of engines as control and in targets, got "four"`},
		"row twice":       {"name: D", "name: A", `scenarios: duplicate "A"`},
		"no package":      {"package: ./two, ", "", "experiment.yaml:9: engines: want name, title and package"},
		"no blocks":       {"blocks: 3", "blocks: 0", "blocks: want 1 to"},
		"no time":         {"measure: 1ns", "measure: 0s", "measure: want at least"},
		"much time":       {"measure: 1ns", "measure: 2562047h", "measure: want at most 1h"},
		"a generator":     {"package: ./two", "package: ./two, needs: wrk", "needs: load generators also need server"},
	} {
		text := strings.Replace(small, test.old, test.new, 1)
		if text == small {
			t.Fatalf("%s changes nothing", name)
		}
		readExperiment(t, text, test.want)
	}
	root := benchmarkProject(t, small)
	if _, err := lab.Prepare(context.Background(),
		lab.Options{Root: root, Experiment: "x", Scenarios: []string{"E"}}); err == nil ||
		err.Error() != `scenarios: "E" is not in x; want "A", "B", "C", "D"` {
		t.Errorf("an unknown row: %v", err)
	}
}

const targeted = `kind: benchmarks
title: t
module: .
control: one
engines:
  - {name: one, title: One, package: ./one, prefix: One}
  - {name: parts, title: Parts, package: ./parts, part: mine}
quick: &trials
  blocks: 6
  measure: 1ns
  scenarios:
  - {name: row-1, benchmark: A, gomaxprocs: 1, once: true, blocks: 7, targets: [
      {contender: parts, metric: laps/op, reference: one, require: <= 3}, {contender: parts, metric: laps/op, require: <= 1}]}
  - {name: row-2, benchmark: A, gomaxprocs: 2, targets: [{contender: parts, metric: laps/op, reference: one, aim: <= 1}]}
full: *trials
`

// Targets of benchmarks are compared like those of servers.
func TestTargetsOfBenchmarks(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it runs benchmarks")
	root := benchmarkProject(t, targeted)
	for name, text := range map[string]string{
		"one": "package a\n\nimport \"testing\"\n\nfunc BenchmarkOneA(b *testing.B) { b.ReportMetric(1, \"laps/op\") }\n",
		"parts": "package a\n\nimport \"testing\"\n\nfunc BenchmarkA(b *testing.B) {\n" +
			"\tb.Run(\"mine\", func(b *testing.B) { b.ReportMetric(2, \"laps/op\") })\n" +
			"\tb.Run(\"other\", func(b *testing.B) { b.Fatal(\"not mine\") })\n}\n",
	} {
		testkit.WriteFile(t, filepath.Join(root, name, "a_test.go"), text)
	}
	run, _, err := lab.Weigh(t.Context(), lab.Options{Root: root, Experiment: "x"})
	if err != nil || !run.Complete() {
		t.Fatal(run, err)
	}
	testkit.Equal(t, len(run.Records), 2*7+2*6, "records, two of each block")
	a := report.New(run)
	got := a.Missed()
	for _, r := range a.Targets {
		got = append(got, fmt.Sprint(r.Row, " ", r.Value.Mid, " ", r.Standing))
	}
	want := []string{"row-1: laps/op of parts: 2 (2 to 2), required <= 1: missed by 100.0 %", "row-1 2 met",
		"row-1 2 MISSED", "row-2 2 "}
	testkit.Equal(t, got, want)
	run, _, err = lab.Weigh(t.Context(), lab.Options{
		Root: root, Experiment: "x", Scenarios: []string{"row-2"}, Out: filepath.Join(root, "out"),
	})
	if err != nil || len(run.Targets) != 1 {
		t.Errorf("%+v, %v", run.Targets, err)
	}
}

func TestMalformedTargetsOfProgramsAreRejected(t *testing.T) {
	for old, test := range map[string]struct{ new, want string }{
		"benchmark: A, ":    {"", "with benchmark or run to each of kind benchmarks"},
		"gomaxprocs: 1":     {"gomaxprocs: 9999", "gomaxprocs: want 0 to 1024, got 9999"},
		"reference: one":    {"reference: six", `want names of engines as control and in targets, got "six"`},
		"metric: laps/op, ": {"", "metric is missing"},
		"benchmark: A, gomaxprocs: 2": {"run: {one: x}",
			"scenarios: benchmark requires module, and run requires server"},
	} {
		readExperiment(t, strings.Replace(targeted, old, test.new, 1), test.want)
	}
}

// The rows of the project are benchmarks.
func TestProgramsOfTheProjectExist(t *testing.T) {
	root := programs.Root(t)
	all, err := lab.ReadExperiments(filepath.Join(root, "experiments", lab.TargetsDir))
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for _, e := range all {
		if e.Kind != lab.Benchmarks {
			continue
		}
		run, err := lab.Prepare(t.Context(), lab.Options{
			Root: root, Experiment: "targets/" + e.Name, Tools: programs.Tools(t),
		})
		testkit.Must(t, err)
		for i, x := range run.Entrants {
			testkit.Equal(t, x.Absent, "", e.Name, x.Title, "is left out")
			if e.Module == "" {
				continue
			}
			engine := e.Engines[i]
			source := testkit.Value(filepath.Glob(filepath.Join(root, e.Module, engine.Package, "*_test.go")))(t)
			for _, row := range e.Quick.Scenarios {
				name := "Benchmark" + engine.Prefix + row.Benchmark
				testkit.Equal(t, count(t, source, "func "+name+"("), 1, name, "of", x.Title)
			}
		}
	}
}

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
