package gobench

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
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
)

const (
	// shownLines is how much of a process's output is shown when it fails.
	shownLines = 12
	// slack is how much longer than asked a benchmark may take: it is run again and again,
	// each time longer, until it takes the time that was asked for.
	slack, spare = 20, time.Minute
	// restOfOutput is how long a process's output is waited for once it has ended.
	restOfOutput = 5 * time.Second
)

// binary is the compiled benchmarks of an engine.
type binary struct {
	path       string
	dir        string   // where its benchmarks run
	benchmarks []string // their names, without Benchmark
	versions   []string
}

// compile compiles an engine's benchmarks and asks for their names.
func compile(ctx context.Context, module, path string, e *Engine) (*binary, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if _, err := command(ctx, module, nil, "go", "test", "-c", "-o", path, e.Package); err != nil {
		return nil, fmt.Errorf("go test -c %s: %w", e.Package, err)
	}
	b := &binary{path: path, dir: filepath.Join(module, e.Package)}
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("%s has no benchmarks", e.Package)
	}
	out, err := command(ctx, b.dir, nil, path, "-test.list", "^Benchmark")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		b.benchmarks = append(b.benchmarks, strings.TrimPrefix(strings.TrimSpace(line), "Benchmark"))
	}
	b.versions, err = versions(ctx, path, b.dir, e.Module)
	return b, err
}

// versions says what a binary was built of. It knows its Go itself, and not its modules.
func versions(ctx context.Context, path, dir, module string) ([]string, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if module == "" {
		return []string{info.GoVersion}, nil
	}
	const format = "{{.Path}} {{if .Replace}}of this checkout{{else}}{{.Version}}{{end}}"
	out, err := command(ctx, dir, nil, "go", "list", "-m", "-f", format, module)
	return []string{info.GoVersion, strings.TrimSpace(string(out))}, err
}

// run runs one benchmark once, as a process with so many threads. The error says what the
// process printed.
func (b *binary) run(ctx context.Context, name string, procs int, d time.Duration) (Figures, int, error) {
	limit := slack*d + spare
	out, err := command(ctx, b.dir, []string{"GOMAXPROCS=" + strconv.Itoa(procs)}, b.path,
		"-test.run", "^$", "-test.bench", "^Benchmark"+name+"$", "-test.benchmem", "-test.count", "1",
		"-test.benchtime", d.String(), "-test.timeout", limit.String())
	if err != nil {
		return Figures{}, 0, err
	}
	return parse(out, name)
}

// parse reads the one result of a benchmark from what its process printed. A name may end in
// the number of threads.
func parse(output []byte, name string) (f Figures, iterations int, err error) {
	r := benchfmt.NewReader(bytes.NewReader(output), name)
	for r.Scan() {
		result, ok := r.Result().(*benchfmt.Result)
		if !ok {
			continue // a line that is no result
		}
		if full, _, _ := strings.Cut(string(result.Name), "-"); full != name || iterations > 0 {
			return f, 0, fmt.Errorf("want one result of %s, got one of %s", name, result.Name)
		}
		var has [3]bool
		f.Ns, has[0] = value(result, "ns/op")
		f.Bytes, has[1] = value(result, "B/op")
		f.Allocs, has[2] = value(result, "allocs/op")
		if has != [3]bool{true, true, true} {
			return f, 0, fmt.Errorf("the result of %s lacks ns/op, B/op or allocs/op", name)
		}
		iterations = result.Iters
	}
	if err := r.Err(); err != nil {
		return f, 0, err
	}
	if iterations == 0 {
		return f, 0, fmt.Errorf("it printed no result:\n%s", last(output))
	}
	return f, iterations, nil
}

// value returns a figure as it was printed: the reader has turned some into other units.
func value(r *benchfmt.Result, unit string) (float64, bool) {
	for _, v := range r.Values {
		switch unit {
		case v.OrigUnit:
			return v.OrigValue, true
		case v.Unit:
			return v.Value, true
		}
	}
	return 0, false
}

// command runs a program to its end and returns what it printed on its standard output.
// When ctx ends, so does the program with all that it has started; should this process be
// killed, so is the program.
func command(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	runtime.LockOSThread() // the death signal is sent when the thread ends that started the program
	defer runtime.UnlockOSThread()
	c := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	c.Dir, c.Env = dir, slices.Concat(os.Environ(), env)
	c.Stdout, c.Stderr = &out, &errs
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = restOfOutput
	err := c.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err == nil {
		return out.Bytes(), nil
	}
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%w; \"apt-get install golang-go\" brings it", err)
	}
	return nil, fmt.Errorf("%w\n%s", err, last(slices.Concat(out.Bytes(), errs.Bytes())))
}

// last returns the last lines of an output, or the first of a panic: goroutines follow.
func last(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	from := max(0, len(lines)-shownLines)
	if i := slices.IndexFunc(lines, func(s string) bool { return strings.HasPrefix(s, "panic: ") }); i >= 0 {
		from = i
	}
	return strings.Join(lines[from:min(len(lines), from+shownLines)], "\n")
}
