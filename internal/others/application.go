package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// application is a program that a script drives with real clients, from its start to SIGTERM.
type application struct {
	Name    string            `yaml:"name"` // also of the script in the folder applications
	Module  string            `yaml:"module"`
	Version string            `yaml:"version"`
	Package string            `yaml:"package"`
	Tags    string            `yaml:"tags"`
	Tools   map[string]string `yaml:"tools"` // other programs of the script: package@version by name
	Modes   []string          `yaml:"modes"`
	Quick   bool              `yaml:"quick"`
}

// scriptLimit is the most time that a script takes.
const scriptLimit = 3 * time.Minute

// runApplication compares what a script writes with net/http and with tare.
func (r *runner) runApplication(ctx context.Context, a *application) (*result, error) {
	began := time.Now()
	p, err := r.newProject(ctx, a.Module, a.Version, a.Tags)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(p.work)
	bin := filepath.Join(p.work, "bin")
	if err := p.linkHook(filepath.Join(p.dir, a.Package), "zz_tare.go", "main"); err != nil {
		return nil, err
	}
	if err := p.build(ctx, filepath.Join(bin, "application"), "./"+a.Package, false); err != nil {
		return nil, err
	}
	for name, path := range a.Tools {
		if _, err := goCommand(ctx, append(r.env, "GOBIN="+bin), os.TempDir(), "install", path); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	script, err := os.ReadFile(filepath.Join(r.checkout, "internal", "others", "applications", a.Name+".sh"))
	if err != nil {
		return nil, err
	}
	out := &result{Name: p.name, Go: r.goVersion, Tests: 1, Modes: r.modesOf(&suite{Modes: a.Modes})}
	want, _, err := r.runScript(ctx, p, script, reference)
	if err != nil {
		return nil, err
	}
	for _, mode := range out.Modes {
		got, served, err := r.runScript(ctx, p, script, mode)
		if err != nil {
			return nil, err
		}
		if !served {
			out.Problems = append(out.Problems, mode+": tare served nothing")
		}
		if !bytes.Equal(got, want) {
			out.Differences = append(out.Differences, difference{Mode: mode, Package: a.Name, Test: "script"})
			fmt.Fprintf(r.log, "%s: %s\nwith net/http:\n%s\nwith tare:\n%s\n", mode, a.Name, lastLines(string(want)),
				lastLines(string(got)))
		}
	}
	out.Seconds = int(time.Since(began).Seconds())
	return out, nil
}

// runScript runs a script in a new folder and returns what it has written, and whether tare served.
func (r *runner) runScript(ctx context.Context, p *project, script []byte, mode string) (out []byte, served bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, scriptLimit)
	defer cancel()
	home := filepath.Join(p.work, "home")
	defer os.RemoveAll(home)
	box, err := newSandbox(home)
	if err != nil {
		return nil, false, err
	}
	if err := box.own(p.work); err != nil {
		return nil, false, err
	}
	cmd := box.command(ctx, home, mode, "bash", "-eu")
	cmd.Env = append(cmd.Env, "PATH="+filepath.Join(p.work, "bin")+":"+os.Getenv("PATH"), "SOURCE="+p.dir)
	cmd.Stdin = bytes.NewReader(script)
	out, err = cmd.CombinedOutput()
	if ctx.Err() != nil {
		return nil, false, fmt.Errorf("%s: the script takes more than %v", mode, scriptLimit)
	}
	if err != nil {
		out = append(out, "\nscript: "+err.Error()+"\n"...)
	}
	_, markErr := os.Stat(box.mark())
	return out, markErr == nil, nil
}
