package benchmark

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/perf/benchfmt"

	"github.com/tarehq/tare/internal/lab/contender"
)

// The timeout of a benchmark, or of a load generator, is slack times its time, plus spare: package
// testing repeats a benchmark with more iterations until it takes its time.
const slack, spare = 20, time.Minute

// Program measures rows of one engine, by its compiled benchmarks or as a load generator.
type Program struct {
	Versions []string // of its components

	engine *Engine
	path   string
	dir    string // working directory of the benchmarks

	benchmarks []string // names without "Benchmark"

	// Of a load generator; otherwise nil.

	requests *regexp.Regexp // its group is the number of requests, in the output
	errors   *regexp.Regexp // matches the output if requests failed; nil if unknown
	env      []string
	cpus     []int // on which it runs; nil are all
}

// Has reports whether the engine has a row.
func (p *Program) Has(row *Row) bool {
	if p.requests != nil {
		return row.Run[p.engine.Name] != ""
	}
	return slices.Contains(p.benchmarks, p.engine.Prefix+row.Benchmark)
}

// Run measures a row once, in a process of its own. It returns the figures by unit. The error
// contains the output.
func (p *Program) Run(ctx context.Context, row *Row, turn Turn) (values map[string]float64, iterations int, err error) {
	if p.requests != nil {
		return p.generate(ctx, row, turn)
	}
	return p.benchmark(ctx, row, turn)
}

// Turn is what a turn determines for all engines of a row.
type Turn struct {
	Procs  int           // GOMAXPROCS
	Length time.Duration // of a benchmark
	URL    string        // of the server; "" if there is none
}

// Find finds the program of a load generator, or compiles an engine's benchmarks, in the module's
// folder. Engines with one package share the program among those of others.
func Find(ctx context.Context, tools *contender.Tools, module, experiment string, e *Engine,
	others map[string]*Program) (*Program, error) {
	if e.Needs != "" {
		return findTool(ctx, tools, e)
	}
	for _, p := range others {
		if p.engine.Package == e.Package {
			same := *p
			same.engine = e
			var err error
			same.Versions, err = versions(ctx, tools.GoEnv, same.path, same.dir, e.Module)
			return &same, err
		}
	}
	return compile(ctx, tools, module, experiment, e)
}

// compile compiles an engine's benchmarks and lists their names.
func compile(ctx context.Context, tools *contender.Tools, module, experiment string, e *Engine) (*Program, error) {
	if err := tools.FindGo(ctx, module); err != nil {
		return nil, err
	}
	path := filepath.Join(tools.BinDir(), experiment+"-"+e.Name+".test")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	args := slices.Concat([]string{"test"}, tools.GoFlags, []string{"-c", "-o", path, e.Package})
	if _, err := (&contender.Command{Dir: module, Env: tools.GoEnv}).Run(ctx, "go", args...); err != nil {
		return nil, fmt.Errorf("go test -c %s: %w", e.Package, err)
	}
	p := &Program{path: path, dir: filepath.Join(module, e.Package), engine: e}
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("%s has no benchmarks", e.Package)
	}
	out, err := (&contender.Command{Dir: p.dir}).Run(ctx, path, "-test.list", "^Benchmark")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		p.benchmarks = append(p.benchmarks, strings.TrimPrefix(strings.TrimSpace(line), "Benchmark"))
	}
	p.Versions, err = versions(ctx, tools.GoEnv, path, p.dir, e.Module)
	return p, err
}

// versions returns the versions of Go and of a module in a binary. A test binary contains the
// version of Go, but not those of modules: go list reports them.
func versions(ctx context.Context, env []string, path, dir, module string) ([]string, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if module == "" {
		return []string{info.GoVersion}, nil
	}
	const format = "{{.Path}} {{if .Replace}}of this checkout{{else}}{{.Version}}{{end}}"
	out, err := (&contender.Command{Dir: dir, Env: env}).Run(ctx, "go", "list", "-m", "-f", format, module)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n") // the last is not about a download
	return []string{info.GoVersion, lines[len(lines)-1]}, err
}

// benchmark runs one benchmark once, for a time or one iteration.
func (p *Program) benchmark(ctx context.Context, row *Row, turn Turn) (map[string]float64, int, error) {
	limit, length := spare+slack*turn.Length, turn.Length.String()
	if row.Once {
		limit, length = spare*slack, "1x"
	}
	name := p.engine.Prefix + row.Benchmark
	pattern := "^Benchmark" + name + "$"
	if part := p.engine.Part; part != "" {
		name += "/" + part
		pattern += "/^" + part + "$"
	}
	c := contender.Command{Dir: p.dir, Env: []string{"GOMAXPROCS=" + strconv.Itoa(turn.Procs)}}
	out, err := c.Run(ctx, p.path,
		"-test.run", "^$", "-test.bench", pattern, "-test.benchmem", "-test.count", "1",
		"-test.benchtime", length, "-test.timeout", limit.String())
	if err != nil {
		return nil, 0, err
	}
	return parse(out, name)
}

// parse parses the one result of a benchmark in its process's output. The name in the output may
// end in GOMAXPROCS.
func parse(output []byte, name string) (values map[string]float64, iterations int, err error) {
	r := benchfmt.NewReader(bytes.NewReader(output), name)
	for r.Scan() {
		result, ok := r.Result().(*benchfmt.Result)
		if !ok {
			continue // not a result
		}
		if full, _, _ := strings.Cut(string(result.Name), "-"); full != name || iterations > 0 {
			return nil, 0, fmt.Errorf("want one result of %s, got one of %s", name, result.Name)
		}
		iterations, values = result.Iters, make(map[string]float64)
		for _, v := range result.Values {
			if v.OrigUnit != "" { // the reader converts some units
				v.Value, v.Unit = v.OrigValue, v.OrigUnit
			}
			values[v.Unit] = v.Value
		}
	}
	if err := r.Err(); err != nil {
		return nil, 0, err
	}
	if iterations == 0 {
		return nil, 0, fmt.Errorf("no result in its output: %s", contender.Quoted(output))
	}
	return values, iterations, nil
}
