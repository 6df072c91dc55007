package benchmark

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/perf/benchfmt"

	"github.com/tarehq/tare/internal/lab/contender"
)

const (
	// The timeout of a benchmark, or of a load generator, is slack times its time, plus spare:
	// package testing repeats a benchmark with more iterations until it takes its time.
	slack, spare = 20, time.Minute
	// maxOutput limits the output of a process.
	maxOutput = 16 << 20
)

// Program measures rows of one engine.
type Program interface {
	// Has reports whether the engine has a row.
	Has(row *Row) bool
	// Run measures a row once, in a process of its own. It returns the figures by unit. The error
	// contains the output.
	Run(ctx context.Context, row *Row, turn Turn) (values map[string]float64, iterations int, err error)
	Versions() []string
}

// Turn is what a turn determines for all engines of a row.
type Turn struct {
	Procs  int           // GOMAXPROCS
	Length time.Duration // of a benchmark
	URL    string        // of the server; "" if there is none
}

// binary is the compiled benchmarks of an engine.
type binary struct {
	path       string
	dir        string // working directory of its benchmarks
	engine     *Engine
	benchmarks []string // names without "Benchmark"
	parts      []string // versions of its components
}

// Versions implements Program.
func (b *binary) Versions() []string { return b.parts }

// Has implements Program.
func (b *binary) Has(row *Row) bool {
	return slices.Contains(b.benchmarks, b.engine.Prefix+row.Benchmark)
}

// Find finds the program of a load generator, or compiles an engine's benchmarks, in the module's
// folder. Engines with one package share the program among those of others.
func Find(ctx context.Context, tools *contender.Tools, module, experiment string, e *Engine,
	others map[string]Program) (Program, error) {
	if e.Needs != "" {
		return findTool(ctx, tools, e)
	}
	for _, p := range others {
		if b, ok := p.(*binary); ok && b.engine.Package == e.Package {
			same := *b
			same.engine = e
			var err error
			same.parts, err = versions(ctx, tools.GoEnv, same.path, same.dir, e.Module)
			return &same, err
		}
	}
	return compile(ctx, tools, module, experiment, e)
}

// compile compiles an engine's benchmarks and lists their names.
func compile(ctx context.Context, tools *contender.Tools, module, experiment string, e *Engine) (*binary, error) {
	if err := tools.FindGo(ctx, module); err != nil {
		return nil, err
	}
	path := filepath.Join(tools.BinDir(), experiment+"-"+e.Name+".test")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	args := slices.Concat([]string{"test"}, tools.GoFlags, []string{"-c", "-o", path, e.Package})
	if _, err := (&process{dir: module, env: tools.GoEnv}).run(ctx, "go", args...); err != nil {
		return nil, fmt.Errorf("go test -c %s: %w", e.Package, err)
	}
	b := &binary{path: path, dir: filepath.Join(module, e.Package), engine: e}
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("%s has no benchmarks", e.Package)
	}
	out, err := (&process{dir: b.dir}).run(ctx, path, "-test.list", "^Benchmark")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		b.benchmarks = append(b.benchmarks, strings.TrimPrefix(strings.TrimSpace(line), "Benchmark"))
	}
	b.parts, err = versions(ctx, tools.GoEnv, path, b.dir, e.Module)
	return b, err
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
	out, err := (&process{dir: dir, env: env}).run(ctx, "go", "list", "-m", "-f", format, module)
	return []string{info.GoVersion, strings.TrimSpace(string(out))}, err
}

// Run implements Program: it runs one benchmark once, for a time or one iteration.
func (b *binary) Run(ctx context.Context, row *Row, turn Turn) (map[string]float64, int, error) {
	limit, length := spare+slack*turn.Length, turn.Length.String()
	if row.Once {
		limit, length = spare*slack, "1x"
	}
	name := b.engine.Prefix + row.Benchmark
	pattern := "^Benchmark" + name + "$"
	if part := b.engine.Part; part != "" {
		name += "/" + part
		pattern += "/^" + part + "$"
	}
	p := process{dir: b.dir, env: []string{"GOMAXPROCS=" + strconv.Itoa(turn.Procs)}}
	out, err := p.run(ctx, b.path,
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

// process is a program that is run once.
type process struct {
	dir   string
	env   []string      // more variables
	cpus  []int         // nil are all
	limit time.Duration // timeout; 0 is none
	used  time.Duration // CPU time; valid once it has ended
}

// run runs the program and returns its standard output. It leaves no child of the program. When ctx
// ends, it kills the program. If this process is killed, the kernel kills the program.
func (p *process) run(ctx context.Context, name string, args ...string) (output []byte, err error) {
	runtime.LockOSThread() // the kernel sends the death signal when the thread that started the program ends
	defer runtime.UnlockOSThread()
	if p.cpus != nil { // the program inherits those of the thread
		restore, bindErr := contender.BindThread(p.cpus)
		if bindErr != nil {
			return nil, bindErr
		}
		defer func() { err = errors.Join(err, restore()) }()
	}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if p.limit > 0 {
		limited, cancel = context.WithTimeout(ctx, p.limit)
	}
	defer cancel()
	c := exec.CommandContext(limited, name, args...)
	var out, errs limitedBuffer
	c.Dir, c.Env = p.dir, slices.Concat(os.Environ(), p.env)
	c.Stdout, c.Stderr = &out, &errs
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = contender.RunGroup(c)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil:
		err = fmt.Errorf("it has not ended after %v", p.limit)
	case out.isFull || errs.isFull:
		err = fmt.Errorf("its output has more than %d MB", maxOutput>>20)
	case err == nil:
		p.used = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
		return out.kept.Bytes(), nil
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("%w (\"apt-get install golang-go\" installs it)", err)
	}
	return nil, fmt.Errorf("%w: %s", err, contender.Quoted(slices.Concat(out.kept.Bytes(), errs.kept.Bytes())))
}

// limitedBuffer is a buffer with room for maxOutput. Beyond that, writes fail, and the program that
// writes to the pipe receives SIGPIPE.
type limitedBuffer struct {
	kept   bytes.Buffer
	isFull bool
}

// Write implements io.Writer.
func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.kept.Len()+len(p) > maxOutput {
		b.isFull = true
		return 0, io.ErrShortWrite
	}
	return b.kept.Write(p)
}
