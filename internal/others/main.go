// Command others runs the tests of other projects, and some applications, with tare in place of
// net/http, and compares the results. "make check-others" runs it.
//
// No project's source is changed. An overlay of the standard library inserts a call at the start of
// some methods of http.Server and http.Transport. The package hook, which the overlay links into
// each program, passes these calls to tare.Server and tare.Transport.
//
// A test that passes with net/http and fails with tare is a difference. It needs a documented
// reason in suites.yaml. Programs of other projects run as an ordinary user.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "others:", err)
		os.Exit(1)
	}
}

// runner runs suites with one Go release.
type runner struct {
	checkout  string
	work      string // folder for all that is built
	goVersion string
	env       []string // of the go command
	overlay   *overlay
	modes     []string
	log       io.Writer
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("others", flag.ContinueOnError)
	only := flags.String("only", "", "run only projects whose name contains `TEXT`")
	quick := flags.Bool("quick", false, "run only the projects that are marked as quick")
	modes := flags.String("modes", strings.Join(allModes(), ","), "compare these `MODES`")
	toolchain := flags.String("go", "", "use this Go `RELEASE`, such as go1.27.4 (default the installed one)")
	results := flags.String("results", ".cache/others", "write results into this `FOLDER`")
	document := flags.String("document", "", "write the results in the folder as Markdown to `FILE`, and run nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	checkout, err := os.Getwd()
	if err != nil {
		return err
	}
	all, err := readList(checkout)
	if err != nil {
		return err
	}
	if *document != "" {
		return writeDocument(*document, *results, all)
	}
	r := &runner{checkout: checkout, modes: strings.Split(*modes, ","), log: out}
	if err := r.prepare(ctx, *toolchain); err != nil {
		return err
	}
	if os.Getenv("KEEP") == "" {
		defer os.RemoveAll(r.work)
	}
	return r.runAll(ctx, all, *only, *quick, *results)
}

// prepare makes the work folder and the overlay.
func (r *runner) prepare(ctx context.Context, toolchain string) (err error) {
	r.env = []string{"GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false"}
	if toolchain != "" {
		r.env = append(r.env, "GOTOOLCHAIN="+toolchain)
	}
	if r.work, err = os.MkdirTemp("", "tare-others-"); err != nil {
		return err
	}
	if err := os.Chmod(r.work, 0o755); err != nil { // another user's programs are below
		return err
	}
	text, err := goCommand(ctx, r.env, r.checkout, "env", "GOROOT", "GOVERSION")
	if err != nil {
		return err
	}
	goroot, version, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	r.goVersion = version
	const format = `{{if not .Standard}}{{$p := .}}{{range .GoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}{{"\n"}}{{end}}{{end}}`
	text, err = goCommand(ctx, r.env, r.checkout, "list", "-deps", "-f", format, ".")
	if err != nil {
		return err
	}
	sources := make(map[string][]string)
	for line := range strings.Lines(string(text)) {
		if path, file, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			sources[path] = append(sources[path], file)
		}
	}
	folder := filepath.Join(r.work, "standard")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	r.overlay, err = newOverlay(goroot, folder, sources)
	return err
}

// runAll runs what is selected and writes a result for each.
func (r *runner) runAll(ctx context.Context, all *list, only string, quick bool, folder string) error {
	if err := os.MkdirAll(filepath.Join(folder, r.goVersion), 0o755); err != nil {
		return err
	}
	wrong, found := 0, 0
	runOne := func(name string, isQuick bool, f func() (*result, error)) error {
		if quick && !isQuick || !strings.Contains(name, only) {
			return nil
		}
		found++
		res, err := f()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			res = &result{Name: name, Go: r.goVersion, Problems: []string{err.Error()}}
		}
		fmt.Fprintln(r.log, res.summary())
		wrong += res.undocumented() + len(res.Problems)
		text, err := json.MarshalIndent(res, "", "\t")
		if err != nil {
			return err
		}
		file := strings.NewReplacer("/", "+", " ", "+").Replace(name) + ".json"
		return os.WriteFile(filepath.Join(folder, r.goVersion, file), text, 0o644)
	}
	for _, s := range all.Suites {
		if err := runOne(s.Module, s.Quick, func() (*result, error) { return r.runSuite(ctx, s) }); err != nil {
			return err
		}
	}
	for _, a := range all.Applications {
		if err := runOne(a.Name, a.Quick, func() (*result, error) { return r.runApplication(ctx, a) }); err != nil {
			return err
		}
	}
	switch {
	case found == 0:
		return fmt.Errorf("no project's name contains %q", only)
	case wrong > 0:
		return errors.New("there are differences without a documented reason, or suites that did not run")
	}
	return nil
}

// modesOf returns the modes in which a suite runs.
func (r *runner) modesOf(s *suite) (modes []string) {
	for _, m := range r.modes {
		if len(s.Modes) == 0 || strings.Contains(strings.Join(s.Modes, ","), m) {
			modes = append(modes, m)
		}
	}
	return modes
}
