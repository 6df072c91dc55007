package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// project is a module that was copied to a folder of its own, and builds with the overlay.
type project struct {
	name    string // path@version
	dir     string
	work    string // contains dir, and what is built
	tags    string
	env     []string // of the go command
	overlay overlay  // with files of the project
}

// newProject downloads a module and copies it. The module "std" is the standard library, which is
// tested where it is.
func (r *runner) newProject(ctx context.Context, module, version, tags string) (*project, error) {
	p := &project{name: module + "@" + version, overlay: *r.overlay, env: r.env, tags: overlayTag}
	p.work = filepath.Join(r.work, strings.ReplaceAll(p.name, "/", "+"))
	if tags != "" {
		p.tags += "," + tags
	}
	p.overlay.files = make(map[string]string)
	for to, from := range r.overlay.files {
		p.overlay.files[to] = from
	}
	p.overlay.folder = filepath.Join(p.work, "overlay")
	if err := os.MkdirAll(p.overlay.folder, 0o755); err != nil {
		return nil, err
	}
	if module == "std" {
		p.name, p.dir = "Go's standard library", filepath.Join(r.overlay.goroot, "src")
		return p, nil
	}
	out, err := goCommand(ctx, r.env, os.TempDir(), "mod", "download", "-json", p.name)
	if err != nil {
		return nil, err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return nil, err
	}
	p.dir = filepath.Join(p.work, "source")
	if err := os.RemoveAll(p.dir); err != nil {
		return nil, err
	}
	return p, copyTree(p.dir, downloaded.Dir)
}

// copyTree copies a folder of the module cache, whose files are read-only.
func copyTree(to, from string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.Chmod(path, info.Mode()|0o600)
	})
}

// testPackage is a package with tests.
type testPackage struct{ ImportPath, Name, Dir, program string }

// packages returns the packages with tests that match patterns, and links the hook into their
// tests.
func (p *project) packages(ctx context.Context, patterns []string) (found []testPackage, err error) {
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	const format = `{{if or .TestGoFiles .XTestGoFiles}}{"ImportPath":"{{.ImportPath}}","Name":"{{.Name}}","Dir":"{{.Dir}}"}{{end}}`
	args := append([]string{"list", "-tags", p.tags, "-f", format}, patterns...)
	out, err := goCommand(ctx, p.env, p.dir, args...)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(out) {
		var t testPackage
		if err := json.Unmarshal(line, &t); err != nil {
			return nil, err
		}
		if err := p.linkHook(t.Dir, "zz_tare_test.go", t.Name+"_test"); err != nil {
			return nil, err
		}
		found = append(found, t)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: no tests in %q", p.name, patterns)
	}
	return found, nil
}

// linkHook adds a file to a package of the project that imports the hook.
func (p *project) linkHook(dir, file, name string) error {
	return p.overlay.add(filepath.Join(dir, file), []byte("package "+name+"\n\nimport _ \"tarehq/hook\"\n"))
}

// build builds the program of a package's tests, or of a main package.
func (p *project) build(ctx context.Context, out, pattern string, isTest bool) error {
	config, err := p.overlay.write()
	if err != nil {
		return err
	}
	args := []string{"build"}
	if isTest {
		args = []string{"test", "-c", "-vet=off"}
	}
	args = append(args, "-overlay", config, "-tags", p.tags, "-o", out, pattern)
	_, err = goCommand(ctx, p.env, p.dir, args...)
	return err
}

// goCommand runs the go command and returns its output. Its error has what it wrote to stderr.
func goCommand(ctx context.Context, env []string, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return out, fmt.Errorf("go %s: %w\n%s", args[0], err, exit.Stderr)
	}
	return out, err
}
