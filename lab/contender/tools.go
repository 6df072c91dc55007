package contender

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Tools gets contenders ready. It keeps what it builds and unpacks under Cache.
type Tools struct {
	Cache string                           // a folder of ours
	Say   func(format string, args ...any) // told what takes time; may be nil

	once     sync.Once // for nginx
	nginx    *NginxTool
	nginxErr error
}

// missing is the error for a contender that needs what cannot be had. The remedy is
// the command that brings it.
func missing(tool, why, remedy string) error {
	return fmt.Errorf("%s is missing: %s; %q brings it", tool, why, remedy)
}

// Contender is a Spec made ready: built, with all it needs found.
type Contender struct {
	*Spec
	Bin      string
	FrontBin string     // what FrontBuild makes
	Nginx    *NginxTool // nil without a front
	Versions []string   // of what it consists of, such as "go1.26.8", "nginx/1.22.1"
	Lines    int        // of the application's source, as sourceLines counts them; 0 if it names none
	Deaf     bool       // it does not end when it is told to: nobody waits for that

	env    []string // what its programs need in their environment
	values []string // placeholders for what was found, each followed by that
}

// Prepare finds what the contender needs, and builds it.
func (t *Tools) Prepare(ctx context.Context, s *Spec) (*Contender, error) {
	c := &Contender{Spec: s, Bin: filepath.Join(t.Cache, "bin", s.Name)}
	c.FrontBin = c.Bin + "-front"
	for _, need := range s.Needs {
		if err := t.find(ctx, c, need); err != nil {
			return nil, err
		}
	}
	for _, line := range []string{c.Build, c.FrontBuild} {
		if err := t.build(ctx, c, line); err != nil {
			return nil, err
		}
	}
	if len(s.Command) > 0 {
		program, err := s.Program()
		if err != nil {
			return nil, err
		}
		c.Bin = program
	}
	if err := c.askVersions(ctx); err != nil {
		return nil, err
	}
	var err error
	c.Lines, err = sourceLines(s.Dir, s.Source)
	return c, err
}

// find finds one thing that the contender needs.
func (t *Tools) find(ctx context.Context, c *Contender, need string) (err error) {
	switch need {
	case Go:
		if _, err := exec.LookPath("go"); err != nil {
			return missing("go", "it is not in PATH", "apt-get install golang-go")
		}
	case CC:
		err = c.findCompiler(ctx)
	case Nginx:
		c.Nginx, err = t.Nginx(ctx)
	case Python:
		shared := filepath.Join(filepath.Dir(c.Dir), Python)
		var venv string
		venv, err = t.python(ctx, shared)
		c.values = append(c.values, "{venv}", venv)
		// Nothing is to be written beside the sources.
		c.env = append(c.env, "PYTHONPATH="+shared, "PYTHONDONTWRITEBYTECODE=1")
	case Ruby, MiniHTTPD:
		var p program
		p, err = t.fromDebian(ctx, need)
		c.values = append(c.values, "{"+need+"}", p.path)
		c.env = append(c.env, p.env...)
	}
	return err
}

// fill returns words with values for the placeholders: those of the contender, and
// others given as pairs of the two.
func (c *Contender) fill(words []string, pairs ...string) []string {
	return fill(words, slices.Concat(c.values, []string{"{bin}", c.Bin, "{front}", c.FrontBin, "{home}", c.Dir}, pairs)...)
}

// findCompiler asks the C compiler for its version.
func (c *Contender) findCompiler(ctx context.Context) error {
	out, err := command(ctx, c.Dir, "cc", "--version")
	if err != nil {
		return missing("cc", err.Error(), "apt-get install gcc libc6-dev")
	}
	version, _, _ := strings.Cut(string(out), "\n")
	c.Versions = append(c.Versions, version)
	return nil
}

func (t *Tools) say(format string, args ...any) {
	if t.Say != nil {
		t.Say(format, args...)
	}
}

// build runs one of the contender's build lines. Go's own cache makes a second time cheap.
func (t *Tools) build(ctx context.Context, c *Contender, line string) error {
	if line == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(c.Bin), 0o755); err != nil {
		return err
	}
	t.say("building %s", c.Title)
	words := c.fill(strings.Fields(line))
	out, err := command(ctx, c.Dir, words[0], words[1:]...)
	if err != nil {
		return fmt.Errorf("build: %s: %w\n%s", strings.Join(words, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// fill returns words with values for their placeholders, given as pairs of the two.
func fill(words []string, pairs ...string) []string {
	values, filled := strings.NewReplacer(pairs...), make([]string, len(words))
	for i := range words {
		filled[i] = values.Replace(words[i])
	}
	return filled
}

// command runs a program to its end and returns all it printed. When ctx ends, so
// does the program, with all that it has started.
func command(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	return commandWith(ctx, nil, dir, name, args...)
}

// commandWith is command with more in the environment.
func commandWith(ctx context.Context, env []string, dir, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.Env = slices.Concat(os.Environ(), env)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	out, err := c.CombinedOutput()
	if ctx.Err() != nil {
		return out, ctx.Err()
	}
	return out, err
}

// builtOf reads from a binary which Go it was built by, and of which version of the contender's module. What Go has not built
// says nothing.
func (c *Contender) builtOf(bin string) []string {
	info, err := buildinfo.ReadFile(bin)
	if err != nil {
		return nil
	}
	versions := []string{info.GoVersion}
	for _, m := range append(info.Deps, &info.Main) {
		if c.Module != "" && m.Path == c.Module {
			version := m.Version
			if m.Replace != nil || m == &info.Main {
				version = "of this checkout"
			}
			versions = append(versions, m.Path+" "+version)
		}
	}
	return versions
}

// askVersions reads from the binary itself what it was built of, and asks what can
// say so.
func (c *Contender) askVersions(ctx context.Context) error {
	for _, bin := range []string{c.Bin, c.FrontBin} {
		for _, version := range c.builtOf(bin) {
			if !slices.Contains(c.Versions, version) {
				c.Versions = append(c.Versions, version)
			}
		}
	}
	if c.Version != "" {
		words := c.fill(strings.Fields(c.Version))
		out, err := commandWith(ctx, c.env, c.Dir, words[0], words[1:]...)
		if err != nil {
			return fmt.Errorf("version: %s: %w\n%s", strings.Join(words, " "), err, bytes.TrimSpace(out))
		}
		c.Versions = append(c.Versions, strings.Split(string(bytes.TrimSpace(out)), "\n")...)
	}
	if c.Nginx != nil && c.Front == Nginx {
		c.Versions = append(c.Versions, c.Nginx.Version)
	}
	return nil
}

// NginxTool is an nginx that can be run.
type NginxTool struct {
	Bin     string
	Etc     string   // holds mime.types and fastcgi_params
	Env     []string // what it needs in its environment
	Version string   // "nginx/1.22.1"
}

// Nginx finds the machine's nginx, or unpacks Debian's package into the cache. That
// takes no privilege, installs nothing and starts nothing.
func (t *Tools) Nginx(ctx context.Context) (*NginxTool, error) {
	t.once.Do(func() { t.nginx, t.nginxErr = t.findNginx(ctx) })
	return t.nginx, t.nginxErr
}

func (t *Tools) findNginx(ctx context.Context) (*NginxTool, error) {
	n := &NginxTool{Bin: "/usr/sbin/nginx", Etc: "/etc/nginx"}
	if path, err := exec.LookPath("nginx"); err == nil {
		n.Bin = path
	}
	if n.usable(ctx) == nil {
		return n, nil
	}
	tree, err := t.Package(ctx, "nginx", "nginx-common")
	if err == nil {
		n = &NginxTool{Bin: filepath.Join(tree.Root, "usr/sbin/nginx"), Etc: filepath.Join(tree.Root, "etc/nginx"), Env: tree.Env()}
		err = n.usable(ctx)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, missing("nginx", err.Error(), "apt-get install nginx")
	}
	return n, nil
}

// usable asks nginx for its version, and looks for the files that configurations
// include.
func (n *NginxTool) usable(ctx context.Context) error {
	for _, name := range []string{"mime.types", "fastcgi_params"} {
		if _, err := os.Stat(filepath.Join(n.Etc, name)); err != nil {
			return err
		}
	}
	c := exec.CommandContext(ctx, n.Bin, "-v")
	c.Env = slices.Concat(os.Environ(), n.Env)
	out, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("nginx -v: %w: %s", err, bytes.TrimSpace(out))
	}
	_, version, ok := strings.Cut(string(bytes.TrimSpace(out)), "nginx version: ")
	if !ok {
		return errors.New("nginx -v does not say which version it is")
	}
	n.Version = version
	return nil
}
