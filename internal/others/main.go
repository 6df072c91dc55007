// Command others runs the tests of other projects, and some applications, with tare in place of
// net/http, and compares the results. "make check-others" runs it.
//
// No project's source is changed. An overlay of the standard library inserts a call at the start of
// some methods of http.Server and http.Transport. Package hook, which the overlay links into each
// program, passes these calls to tare.Server and tare.Transport.
//
// A test that passes with net/http and fails with tare is a difference. It needs a documented
// reason in projects.yaml. Programs of other projects run as an ordinary user.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "others:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("others", flag.ContinueOnError)
	only := flags.String("only", "", "run only projects whose name contains `TEXT`")
	quick := flags.Bool("quick", false, "run only the projects that are marked as quick")
	modes := flags.String("modes", allModes, "compare these `MODES`")
	toolchain := flags.String("go", "", "use this Go `RELEASE`, such as go1.27.4 (default the installed one)")
	folder := flags.String("results", ".cache/others", "write results into this `FOLDER`")
	document := flags.String("document", "", "write the results in the folder as Markdown to `FILE`, and run nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *document != "" {
		return writeDocument(*document, *folder)
	}
	all, err := readList(".")
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(p *project) bool {
		return *quick && !p.Quick || !strings.Contains(p.name(), *only)
	})
	if len(all) == 0 {
		return fmt.Errorf("no project's name contains %q", *only)
	}
	r, err := newRunner(ctx, *toolchain, os.Stdout)
	if err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	return r.runAll(ctx, all, strings.Split(*modes, ","), *folder)
}

// runner runs projects with one Go release. Its working folder is the checkout.
type runner struct {
	work              string // folder for all that is built
	goroot, goVersion string
	tool              goTool
	overlay           overlay
	log               io.Writer
}

// newRunner makes the work folder and the overlay. release is "" for the installed Go.
func newRunner(ctx context.Context, release string, log io.Writer) (r *runner, err error) {
	r = &runner{log: log, tool: goTool{"go", []string{"GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false"}}}
	if release != "" {
		r.tool.env = append(r.tool.env, "GOTOOLCHAIN="+release)
	}
	text, err := r.tool.run(ctx, ".", "env", "GOMODCACHE", "GOROOT", "GOVERSION")
	if err != nil {
		return nil, err
	}
	modules, rest, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	r.goroot, r.goVersion, _ = strings.Cut(rest, "\n")
	if r.work, err = os.MkdirTemp("", "tare-others-"); err != nil {
		return nil, err
	}
	folder := filepath.Join(r.work, "standard")
	if err := errors.Join(os.Chmod(r.work, 0o755), os.Mkdir(folder, 0o755)); err != nil { // others' programs are below
		return nil, err
	}
	if strings.HasPrefix(r.goroot, modules) { // an overlay cannot change the module cache
		own := filepath.Join(r.work, "go")
		if err := exec.CommandContext(ctx, "cp", "-r", r.goroot, own).Run(); err != nil {
			return nil, err
		}
		r.goroot, r.tool.path = own, filepath.Join(own, "bin", "go")
		r.tool.env = append(r.tool.env, "GOTOOLCHAIN=local", "GOROOT="+own)
	}
	const format = `{{if not .Standard}}{{$p := .}}{{range .GoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}{{"\n"}}{{end}}{{end}}`
	if text, err = r.tool.run(ctx, ".", "list", "-deps", "-f", format, "."); err != nil {
		return nil, err
	}
	var sources []source
	for line := range strings.Lines(string(text)) {
		if path, file, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			sources = append(sources, source{path, file})
		}
	}
	r.overlay, err = newOverlay(r.goroot, folder, sources)
	return r, err
}

// runAll runs projects and writes a result for each.
func (r *runner) runAll(ctx context.Context, all []*project, modes []string, folder string) error {
	folder = filepath.Join(folder, r.goVersion)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	isWrong := false
	for _, p := range all {
		began := time.Now()
		out, err := r.runProject(ctx, p, modes)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			out = &result{Name: p.name(), Version: p.Version, Problems: []string{err.Error()}}
		}
		out.Go, out.Seconds = r.goVersion, int(time.Since(began).Seconds())
		fmt.Fprintln(r.log, out.summary())
		isWrong = isWrong || out.undocumented()+len(out.Problems) > 0
		text, err := json.MarshalIndent(out, "", "\t")
		if err != nil {
			return err
		}
		name := filepath.Join(folder, strings.ReplaceAll(p.name(), "/", "+")+".json")
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return err
		}
	}
	if isWrong {
		return errors.New("there are differences without a documented reason, or programs that did not run")
	}
	return nil
}

func (r *runner) runProject(ctx context.Context, p *project, modes []string) (*result, error) {
	b, err := r.newBuilder(ctx, p)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(b.work)
	return b.compareAll(ctx, slices.DeleteFunc(slices.Clone(modes), func(m string) bool {
		return len(p.Modes) > 0 && !slices.Contains(p.Modes, m)
	}), r.log)
}
