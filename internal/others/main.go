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
	"go/version"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

func main() {
	only := flag.String("only", "", "run only projects whose name matches `REGEXP`")
	quick := flag.Bool("quick", false, "run only the projects that are marked as quick")
	folder := flag.String("results", ".cache/others", "write results into this `FOLDER`")
	document := flag.String("document", "", "write the results in the folder as Markdown to `FILE`, and run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *document != "" {
		err = writeDocument(*document, *folder)
	} else {
		err = run(ctx, *only, *quick, *folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "others:", err)
		os.Exit(1)
	}
}

// run runs projects and writes a result for each.
func run(ctx context.Context, only string, quick bool, folder string) error {
	all, err := readList(".")
	wanted, onlyErr := regexp.Compile(only)
	if err = errors.Join(err, onlyErr); err != nil {
		return err
	}
	r, err := newRunner(ctx)
	if err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	all = slices.DeleteFunc(all, func(p *project) bool {
		return quick && !p.Quick || !wanted.MatchString(p.name()) || version.Compare(r.goVersion, p.Go) < 0
	})
	if len(all) == 0 {
		return fmt.Errorf("no project's name matches %q, or it needs a newer Go release", only)
	}
	var wrong error
	for _, p := range all {
		b := r.newBuilder(p)
		b.compareAll(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		out := &b.out
		fmt.Printf("%s %s, %s, %d s: %d tests, %d differences, %d without a reason; "+
			"%d fail with net/http, differed only once: %v\n%s", out.Name, out.Version, out.Go, out.Seconds,
			out.Tests, len(out.Differences), out.Undocumented, out.Failed, out.Unsteady, out.Problem)
		if out.Undocumented > 0 || out.Problem != "" || out.Tests == 0 {
			wrong = errors.New("there are differences without a documented reason, or programs that did not run")
		}
		text, err := json.MarshalIndent(out, "", "\t")
		file := filepath.Join(folder, r.goVersion, strings.ReplaceAll(out.Name, "/", "+")+".json")
		err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o644),
			os.RemoveAll(b.work))
		if err != nil {
			return err
		}
	}
	return wrong
}

// runner has what the projects share. Its working folder is the checkout.
type runner struct {
	work              string // folder for all that is built
	goroot, goVersion string
	commit            string // of the checkout, or ""
	overlay           overlay
}

// newRunner makes the work folder and the overlay of the Go release that GOTOOLCHAIN selects.
func newRunner(ctx context.Context) (*runner, error) {
	r := new(runner)
	text, err := r.goTool(ctx, ".", "env", "GOROOT", "GOVERSION")
	if err != nil {
		return nil, err
	}
	goroot, version, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	commit, _ := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output() // it may be no repository
	r.goVersion, r.commit = version, strings.TrimSpace(string(commit))
	if r.work, err = os.MkdirTemp("", "tare-others-"); err != nil {
		return nil, err
	}
	// An overlay cannot change the module cache, which may contain the installation. Others use it.
	r.goroot = filepath.Join(r.work, "go")
	if err = errors.Join(exec.CommandContext(ctx, "cp", "-r", goroot, r.goroot).Run(), os.Chmod(r.work, 0o755)); err != nil {
		return nil, err
	}
	const format = `{{if or (not .Standard) (eq .ImportPath "net/http")}}{{$p := .}}` +
		`{{range .GoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}{{"\n"}}{{end}}{{end}}`
	if text, err = r.goTool(ctx, ".", "list", "-deps", "-f", format, "."); err != nil {
		return nil, err
	}
	const hook = "tarehq/hook internal/others/hook/hook.go\nnet/http internal/others/hook/http/replaced.go\n"
	r.overlay, err = newOverlay(r.goroot, r.work, hook+string(text))
	return r, err
}

// goTool runs the go command and returns its output. Its error has what that wrote to stderr.
func (r *runner) goTool(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false", "GOBIN="+r.work)
	if r.goroot != "" {
		cmd.Path = filepath.Join(r.goroot, "bin", "go")
		cmd.Env = append(cmd.Env, "GOTOOLCHAIN=local", "GOROOT="+r.goroot)
	}
	out, err := cmd.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return out, fmt.Errorf("go %s: %w\n%s", args[0], err, exit.Stderr)
	}
	return out, err
}
