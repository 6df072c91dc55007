package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// builder builds the programs of a project.
type builder struct {
	*project
	overlay *overlay
	env     []string // of the go command
	source  string   // folder of the project, a copy
	work    string   // folder of what is built; contains source
}

// program is a built program: the tests of a package, or an application.
type program struct{ ImportPath, Name, Dir, file string }

// newBuilder downloads a module and copies it. The standard library is tested where it is.
func (r *runner) newBuilder(ctx context.Context, p *project) (*builder, error) {
	work, err := os.MkdirTemp(r.work, "")
	if err != nil {
		return nil, err
	}
	b := &builder{project: p, env: r.env, work: work, source: filepath.Join(work, "source"),
		overlay: r.overlay.of(filepath.Join(work, "overlay"))}
	if err := errors.Join(os.Chmod(work, 0o755), os.Mkdir(b.overlay.folder, 0o755)); err != nil {
		return nil, err
	}
	if p.Module == "std" {
		b.source = filepath.Join(r.overlay.goroot, "src")
		return b, nil
	}
	out, err := goCommand(ctx, r.env, os.TempDir(), "mod", "download", "-json", p.Module+"@"+p.Version)
	if err != nil {
		return nil, err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return nil, err
	}
	return b, exec.CommandContext(ctx, "cp", "-r", "--no-preserve=mode", downloaded.Dir, b.source).Run()
}

// programs returns what is to be built, and links the hook into it.
func (b *builder) programs(ctx context.Context) (found []program, err error) {
	patterns, condition, file, suffix := b.Packages, "or .TestGoFiles .XTestGoFiles", "zz_tare_test.go", "_test"
	if b.Script != "" {
		condition, file, suffix = `eq .Name "main"`, "zz_tare.go", ""
	}
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	format := "{{if " + condition + `}}{"ImportPath":"{{.ImportPath}}","Name":"{{.Name}}","Dir":"{{.Dir}}"}{{end}}`
	out, err := goCommand(ctx, b.env, b.source, append([]string{"list", "-tags", b.Tags, "-f", format}, patterns...)...)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(out) {
		var p program
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, err
		}
		p.file = filepath.Join(b.work, fmt.Sprint("program", len(found)))
		hook := "package " + p.Name + suffix + "\n\nimport _ \"tarehq/hook\"\n"
		if err := b.overlay.add(filepath.Join(p.Dir, file), hook); err != nil {
			return nil, err
		}
		found = append(found, p)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no programs in %q", patterns)
	}
	return found, nil
}

func (b *builder) build(ctx context.Context, p program) error {
	config, err := b.overlay.write()
	if err != nil {
		return err
	}
	args := []string{"test", "-c", "-vet=off"}
	if b.Script != "" {
		args = []string{"build"}
	}
	tags := strings.TrimSuffix(overlayTag+","+b.Tags, ",")
	args = append(args, "-overlay", config, "-tags", tags, "-o", p.file, p.ImportPath)
	if _, err := goCommand(ctx, b.env, b.source, args...); err != nil {
		return err
	}
	for _, tool := range b.Tools {
		if _, err := goCommand(ctx, append(b.env, "GOBIN="+b.work), os.TempDir(), "install", tool); err != nil {
			return err
		}
	}
	return nil
}

// goCommand runs the go command and returns its output. Its error has what it wrote to stderr.
func goCommand(ctx context.Context, env []string, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return out, fmt.Errorf("go %s: %w\n%s", args[0], err, exit.Stderr)
	}
	return out, err
}
