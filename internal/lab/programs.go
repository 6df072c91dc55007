package lab

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/perf/benchfmt"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// Programs are the engines of an experiment whose programs measure themselves: Go benchmarks, or
// load generators, whose own CPU time is compared. Its scenarios are rows of them: a benchmark or a
// load, with targets of its figures.
//
// The benchmarks are a module with a package for each engine. The benchmarks of all engines have
// the same names after a prefix; engines that share a package have a sub-benchmark each. Load
// generators have a command in each row, and send requests to one server. Each engine of a row runs
// in a process of its own.
type Programs struct {
	Module  string   `yaml:"module"` // the folder of the benchmarks' module, relative to the project's
	Server  string   `yaml:"server"` // the contender to which load generators send requests
	Engines []Engine `yaml:"engines"`
}

// Engine is one of the compared programs.
type Engine struct {
	Name    string `yaml:"name"`
	Title   string `yaml:"title"`
	Package string `yaml:"package"` // of its benchmarks, relative to the module's folder
	Prefix  string `yaml:"prefix"`  // of its benchmarks' names, after "Benchmark"
	Part    string `yaml:"part"`    // the sub-benchmark of each that is the engine's; "" is the whole
	Module  string `yaml:"module"`  // the module whose version is shown in addition to Go's

	// Needs is the load generator, in place of Package; see contender.LoadGenerators. Requests is a
	// pattern in its output, whose group is the number of requests. Errors, if it is set, is a
	// pattern that the output contains if requests failed.
	Needs    string `yaml:"needs"`
	Requests string `yaml:"requests"`
	Errors   string `yaml:"errors"`
}

// ProgramRow is what all engines of a scenario run: a benchmark or a load.
type ProgramRow struct {
	Benchmark string `yaml:"benchmark"`  // without "Benchmark" and the engine's prefix
	Procs     int    `yaml:"gomaxprocs"` // 0 is the number of processors
	Once      bool   `yaml:"once"`       // one iteration, however long it takes

	// Run has the arguments of each load generator, in place of Benchmark, with {url} and {seconds}.
	// Set are settings of the server's nginx.conf.
	Run map[string]string `yaml:"run"`
	Set map[string]string `yaml:"set"`
}

func (e *Experiment) engine(name string) *Engine {
	return sample.First(e.Engines, func(x *Engine) bool { return x.Name == name })
}

// checkPrograms returns a *yamlfile.Error for the first invalid value of programs and counts.
func (e *Experiment) checkPrograms(f *yamlfile.File) error {
	if e.Module == "" == (e.Server == "") {
		return f.Fault("$.module", "module is missing (the folder of the benchmarks), or server (of load generators)")
	}
	for i := range e.Engines {
		x := &e.Engines[i]
		if what := x.fault(e.Server != ""); what != "" {
			return f.Fault(fmt.Sprintf("$.engines[%d]", i), "engines: %s", what)
		}
	}
	for _, name := range e.Contenders() {
		if e.engine(name) == nil {
			return f.Fault("$.engines", "engines: want names of engines as control and in targets, got %q", name)
		}
	}
	for i := range e.Quick.Scenarios {
		s, at := &e.Quick.Scenarios[i], fmt.Sprintf("$.quick.scenarios[%d]", i)
		if len(s.Run) > 0 != (e.Server != "") {
			return f.Fault(at, "scenarios: benchmark requires module, and run requires server")
		}
		for _, name := range slices.Sorted(maps.Keys(s.Run)) {
			if e.engine(name) == nil {
				return f.Fault(at, "scenarios: run: want names of engines, got %q", name)
			}
		}
		if i := slices.IndexFunc(s.members(), func(name string) bool { return s.Run[name] == "" }); e.Server != "" && i >= 0 {
			return f.Fault(at, "scenarios: run: %q is missing", s.members()[i])
		}
	}
	return nil
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

func (s *Scenario) isProgram() bool { return s.Benchmark != "" || len(s.Run) > 0 }

// spec returns the engine as a contender: the compiled benchmarks of its package, or a load
// generator. Engines that share a package have one program.
func (e *Engine) spec(x *Experiment, root string) *contender.Spec {
	if e.Needs != "" {
		return &contender.Spec{Name: e.Name, Title: e.Title, Dir: root, Needs: []string{e.Needs}}
	}
	s := &contender.Spec{
		Name: e.Name, Server: x.Name + "-" + filepath.Base(e.Package) + ".test", Title: e.Title,
		Dir: filepath.Join(root, x.Module, e.Package), Needs: []string{contender.Go}, Build: "go test -c -o {bin} .",
	}
	if e.Module != "" { // a test binary contains the version of Go, but not those of modules
		s.Version = "go list -m " + e.Module
	}
	return s
}

func (w *runner) runPrograms(ctx context.Context, stage *contender.Stage) error {
	w.addTargets()
	for i := range w.trials.Scenarios {
		w.run.Blocks = max(w.run.Blocks, w.trials.Scenarios[i].Blocks)
	}
	return w.carryOut(ctx, &series{
		conditions: w.run.Conditions, blocks: w.run.Blocks, keep: w.keep,
		measure: func(ctx context.Context, t turn) ([]sample.Record, error) { return w.runEngines(ctx, stage, t) },
	})
}

func (w *runner) findServer(ctx context.Context) error {
	if w.experiment.Server == "" {
		return nil
	}
	spec, err := w.spec(w.experiment.Server)
	if err != nil {
		return err
	}
	if w.server, err = w.Tools.Prepare(ctx, spec); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// runEngines runs a row of each engine, in random order. These processes follow each other, because
// they are compared.
func (w *runner) runEngines(ctx context.Context, stage *contender.Stage, t turn) (all []sample.Record, err error) {
	random := rand.New(rand.NewPCG(w.Seed, uint64(t.done)))
	row := sample.First(w.trials.Scenarios, func(s *Scenario) bool { return s.Name == t.condition.Scenario.Name })
	if t.block > cmp.Or(row.Blocks, w.trials.Blocks) {
		return nil, nil
	}
	url := ""
	if w.server != nil {
		r, err := w.startServer(ctx, stage, row)
		if err != nil {
			return nil, err
		}
		url = "http://" + r.Address + "/"
		defer func() { err = errors.Join(err, r.Stop()) }()
	}
	_, cpus := trial.Layout(w.cpus, 1) // those of load generators
	// Package testing repeats a benchmark with more iterations until it takes long enough.
	report := w.progress(t, t.block, 2*w.run.Measure*time.Duration(len(w.run.Entrants)))
	for _, i := range random.Perm(len(w.run.Entrants)) {
		e := &w.run.Entrants[i]
		x, c := w.experiment.engine(e.Name), w.contenders[e.Name]
		if c == nil || !slices.Contains(row.members(), e.Name) || w.hasFailed(t.condition, e.Name) {
			continue
		}
		report(e.Name, 0)
		r := sample.Record{Block: t.block, Condition: t.condition, Contender: e.Name, Start: time.Now()}
		if w.server != nil {
			r.Values, err = x.generate(ctx, c, row, url, cpus, w.run.Measure)
		} else {
			r.Values, err = x.benchmark(ctx, c, row, t.condition.Procs, w.run.Measure)
		}
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
		if err != nil {
			r.Failure = err.Error()
		}
		all = append(all, r)
	}
	return all, nil
}

func (w *runner) startServer(ctx context.Context, stage *contender.Stage, row *Scenario) (*contender.Running, error) {
	spec, c := *w.server.Spec, *w.server
	spec.Set, c.Spec = row.Set, &spec
	ready := equal.Ready(&c, equal.Request{Method: http.MethodGet, Path: "/", Host: "localhost"})
	cpus, _ := trial.Layout(w.cpus, 1)
	return stage.Start(ctx, &c, contender.Setting{Cores: 1, CPUs: cpus, Host: "localhost", Conf: w.conf}, ready)
}

// The timeout of a benchmark, or of a load generator, is slack times its time, plus spare: package
// testing repeats a benchmark with more iterations until it takes its time.
const slack, spare = 20, time.Minute

// benchmark runs one benchmark once, for a time or one iteration.
func (e *Engine) benchmark(ctx context.Context, of *contender.Contender, row *Scenario, procs int,
	length time.Duration) (map[string]float64, error) {
	limit, timed := spare+slack*length, length.String()
	if row.Once {
		limit, timed = spare*slack, "1x"
	}
	name := e.Prefix + row.Benchmark
	pattern := "^Benchmark" + name + "$"
	if e.Part != "" {
		name += "/" + e.Part
		pattern += "/^" + e.Part + "$"
	}
	c := contender.Command{Dir: of.Dir, Env: []string{"GOMAXPROCS=" + strconv.Itoa(procs)}}
	out, err := c.Run(ctx, of.Bin,
		"-test.run", "^$", "-test.bench", pattern, "-test.benchmem", "-test.count", "1",
		"-test.benchtime", timed, "-test.timeout", limit.String())
	if err != nil {
		return nil, err
	}
	return parseBenchmark(out, name)
}

// parseBenchmark parses the one result of a benchmark in its process's output. The name in the
// output may end in GOMAXPROCS.
func parseBenchmark(output []byte, name string) (values map[string]float64, err error) {
	r := benchfmt.NewReader(bytes.NewReader(output), name)
	for r.Scan() {
		result, ok := r.Result().(*benchfmt.Result)
		if !ok {
			continue // not a result
		}
		if full, _, _ := strings.Cut(string(result.Name), "-"); full != name || values != nil {
			return nil, fmt.Errorf("want one result of %s, got one of %s", name, result.Name)
		}
		values = make(map[string]float64)
		for _, v := range result.Values {
			if v.OrigUnit != "" { // the reader converts some units
				v.Value, v.Unit = v.OrigValue, v.OrigUnit
			}
			values[v.Unit] = v.Value
		}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	if values == nil {
		return nil, fmt.Errorf("no result in its output: %s", contender.Quoted(output))
	}
	return values, nil
}

// requestsPerCPU is the unit of a load generator's figure: requests per second of its CPU time,
// including that of its start.
const requestsPerCPU = "requests/cpu-s"

// generate runs the load generator once for a row. Its figures count all the CPU time of its
// process.
func (e *Engine) generate(ctx context.Context, of *contender.Contender, row *Scenario, url string, cpus []int,
	length time.Duration) (map[string]float64, error) {
	home, err := os.MkdirTemp("", "tare-home-") // a generator may read and write files of its user
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(home)
	const siege = ".siege/siege.conf" // without this file siege makes one and reports that
	if err := errors.Join(os.Mkdir(filepath.Join(home, filepath.Dir(siege)), 0o700),
		os.WriteFile(filepath.Join(home, siege), nil, 0o600)); err != nil {
		return nil, err
	}
	seconds := int(math.Ceil(length.Seconds())) // 0 is no limit, or an error
	fill := strings.NewReplacer("{url}", url, "{seconds}", strconv.Itoa(seconds))
	words := strings.Fields(fill.Replace(row.Run[e.Name]))
	path, env := of.Tool(e.Needs)
	c := contender.Command{
		Dir: home, Env: append(slices.Clip(env), "HOME="+home), CPUs: cpus, Limit: spare + slack*length,
	}
	out, err := c.Run(ctx, path, words...)
	if err != nil {
		return nil, err
	}
	if e.Errors != "" && regexp.MustCompile(e.Errors).Match(out) {
		return nil, fmt.Errorf("requests failed: %s", contender.Quoted(out))
	}
	m := regexp.MustCompile(e.Requests).FindSubmatch(out)
	if m == nil {
		return nil, fmt.Errorf("no number of requests in its output: %s", contender.Quoted(out))
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil || n == 0 {
		return nil, fmt.Errorf("it made %s requests: %s", m[1], contender.Quoted(out))
	}
	if c.Used == 0 {
		return nil, errors.New("the kernel reports no CPU time of it")
	}
	return map[string]float64{requestsPerCPU: float64(n) / c.Used.Seconds()}, nil
}
