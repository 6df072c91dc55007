package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// builder builds and runs the programs of a project.
type builder struct {
	*project
	overlay overlay
	tool    *goTool
	source  string // folder of the project, a copy
	work    string // folder of what is built; contains source
}

// program is a built program: the tests of a package, or an application.
type program struct{ ImportPath, Name, Dir, file string }

// newBuilder downloads a module and copies it. The standard library is tested where it is.
func (r *runner) newBuilder(ctx context.Context, p *project) (*builder, error) {
	work, err := os.MkdirTemp(r.work, "")
	if err != nil {
		return nil, err
	}
	b := &builder{p, maps.Clone(r.overlay), &r.tool, filepath.Join(work, "source"), work}
	if p.Module == "std" {
		b.source = filepath.Join(r.goroot, "src")
		return b, os.Chmod(work, 0o755)
	}
	out, err := r.tool.run(ctx, os.TempDir(), "mod", "download", "-json", p.Module+"@"+p.Version)
	if err != nil {
		return nil, err
	}
	var downloaded struct{ Dir string }
	if err := errors.Join(os.Chmod(work, 0o755), json.Unmarshal(out, &downloaded)); err != nil {
		return nil, err
	}
	return b, exec.CommandContext(ctx, "cp", "-r", "--no-preserve=mode", downloaded.Dir, b.source).Run()
}

// compareAll builds all programs of the project, with the hook, and runs them in all modes.
func (b *builder) compareAll(ctx context.Context, modes []string, log io.Writer) (*result, error) {
	condition, file, suffix := "or .TestGoFiles .XTestGoFiles", "zz_tare_test.go", "_test"
	if b.Script != "" {
		condition, file, suffix = `eq .Name "main"`, "zz_tare.go", ""
	}
	format := "{{if " + condition + `}}{"ImportPath":"{{.ImportPath}}","Name":"{{.Name}}","Dir":"{{.Dir}}"}{{end}}`
	text, err := b.tool.run(ctx, b.source, append([]string{"list", "-tags", b.Tags, "-f", format}, b.Packages...)...)
	if err != nil {
		return nil, err
	}
	out := &result{Name: b.name(), Version: b.Version}
	for line := range bytes.Lines(text) {
		p := program{file: filepath.Join(b.work, "program")}
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, err
		}
		hook := "package " + p.Name + suffix + "\n\nimport _ \"tarehq/hook\"\n"
		if err := b.overlay.add(b.work, filepath.Join(p.Dir, file), hook); err != nil {
			return nil, err
		}
		if err := b.build(ctx, p); err != nil {
			out.Problems = append(out.Problems, err.Error())
			continue
		}
		c := comparison{b, p, out, log}
		if err := c.compare(ctx, modes); err != nil {
			return nil, fmt.Errorf("%s: %w", p.ImportPath, err)
		}
	}
	return out, ctx.Err()
}

func (b *builder) build(ctx context.Context, p program) error {
	config := p.file + ".json"
	if err := b.overlay.write(config); err != nil {
		return err
	}
	args := []string{"test", "-c", "-vet=off"}
	if b.Script != "" {
		args = []string{"build"}
		script := filepath.Join("internal", "others", "applications", b.Script+".sh")
		if err := exec.CommandContext(ctx, "cp", script, p.file+".sh").Run(); err != nil {
			return fmt.Errorf("%s: %w", script, err)
		}
	}
	tags := strings.TrimSuffix(overlayTag+","+b.Tags, ",")
	// Without DWARF, which no test reads, linking takes half the CPU time.
	args = append(args, "-ldflags=-w", "-overlay", config, "-tags", tags, "-o", p.file, p.ImportPath)
	_, err := b.tool.run(ctx, b.source, args...)
	for _, tool := range b.Tools {
		install := goTool{b.tool.path, append(b.tool.env, "GOBIN="+b.work)}
		_, toolErr := install.run(ctx, os.TempDir(), "install", tool)
		err = errors.Join(err, toolErr)
	}
	return err
}

// goTool is a go command.
type goTool struct {
	path string
	env  []string
}

// run runs the command and returns its output. Its error has what it wrote to stderr.
func (g *goTool) run(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, g.path, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), g.env...)
	out, err := cmd.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return out, fmt.Errorf("go %s: %w\n%s", args[0], err, exit.Stderr)
	}
	return out, err
}
