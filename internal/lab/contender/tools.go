package contender

import (
	"bytes"
	"cmp"
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
	"text/template"
)

// Tools prepares contenders. It keeps built and unpacked programs in Cache.
type Tools struct {
	Cache string                           // a folder for unpacked and installed programs
	Bin   string                           // a folder for built programs; "" is bin in Cache
	Logf  func(format string, args ...any) // reports steps that take time; may be nil

	Checkout string   // the project's checkout, in which tare is built; "" if there is none
	Program  string   // the path of tare itself, which is used without a checkout; "" if unknown
	GoEnv    []string // more variables for the go command
	GoFlags  []string // more flags for go build
	NoGo     string   // why Go programs cannot be built; "" if they can

	steps sync.Map // what was found or made, by name: functions that once has called
}

// once calls do, and returns its result to later calls for the same name. An interrupted call does
// not count.
func (t *Tools) once(ctx context.Context, name string, do func() (Program, error)) (Program, error) {
	step, _ := t.steps.LoadOrStore(name, sync.OnceValues(do))
	p, err := step.(func() (Program, error))() //nolint:forcetypeassert // steps hold nothing else
	if ctx.Err() != nil {
		t.steps.Delete(name)
	}
	return p, err
}

type missingError struct{ tool, why, remedy string }

// Error describes the error in one line.
func (e *missingError) Error() string {
	why, _, _ := strings.Cut(e.why, "\n")
	return fmt.Sprintf("%s is missing: %s (%q installs it)", e.tool, why, e.remedy)
}

// missing returns the error for an unavailable tool. The remedy is the command that installs it.
func missing(tool, why, remedy string) error { return &missingError{tool, why, remedy} }

// Contender is a Spec that was built and whose tools were found.
type Contender struct {
	*Spec
	Bin      string
	Nginx    *Program           // nil unless it is needed
	Conf     *template.Template // the front's nginx.conf; nil is the one of the Setting
	Versions []string           // of its components, such as "go1.26.8", "nginx/1.22.1"
	Deaf     bool               // it does not end on SIGTERM: Stop kills it at once

	builtin []string // the words after {bin} if tare itself is the program; nil if it is not
	tare    string   // the path of the command tare; "" if it is not needed
	env     []string // environment of its programs
	values  []string // pairs of placeholder and value for the tools that were found
}

// Prepare finds the tools of a contender, and builds it. If ctx ends, the error is ctx's.
func (t *Tools) Prepare(ctx context.Context, s *Spec) (c *Contender, err error) {
	defer func() {
		if ctx.Err() != nil {
			c, err = nil, ctx.Err()
		}
	}()
	// Contenders that are derived from one server have one program.
	c = &Contender{Spec: s, Bin: filepath.Join(t.binDir(), cmp.Or(s.Server, s.Name))}
	for _, need := range s.Needs {
		if err := t.find(ctx, c, need); err != nil && (ctx.Err() != nil || !t.useBuiltin(c, need, err)) {
			return nil, err
		}
	}
	_, err = t.once(ctx, c.Bin+"\n"+c.Build, func() (Program, error) { return Program{}, t.build(ctx, c) })
	if err != nil && (ctx.Err() != nil || !t.useBuiltin(c, Go, err)) {
		return nil, err
	}
	if err := s.findInterpreter(); err != nil {
		return nil, err
	}
	if len(s.Command) > 0 {
		program, err := s.Program()
		if err != nil {
			return nil, err
		}
		c.Bin = program
	}
	if err := c.readVersions(ctx); err != nil {
		return nil, err
	}
	if s.Config == "" {
		return c, nil
	}
	c.Conf, err = ParseNginxConf(filepath.Join(s.Dir, s.Config))
	return c, err
}

// findInterpreter returns an error if the program that Run names is not installed.
func (s *Spec) findInterpreter() error {
	words := strings.Fields(s.Run)
	if len(words) == 0 || strings.ContainsAny(words[0], "{/") {
		return nil
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return s.lacks(words[0])
	}
	return nil
}

// lacks returns the error for a program that is in none of Needs and not installed.
func (s *Spec) lacks(program string) error {
	if s.Install == "" {
		return fmt.Errorf("%s is missing: it is not in PATH", program)
	}
	return missing(program, "it is not in PATH", s.Install)
}

func (t *Tools) find(ctx context.Context, c *Contender, need string) error {
	switch need {
	case Go:
		c.env = append(c.env, t.GoEnv...)
		return t.findGo(ctx, c.Dir)
	case CC:
		return c.findCompiler(ctx)
	case Python:
		shared := filepath.Join(filepath.Dir(c.Dir), Python)
		venv, err := t.python(ctx, shared)
		c.values = append(c.values, "{venv}", venv)
		// Python must not write bytecode into the folder of the sources.
		c.env = append(c.env, "PYTHONPATH="+shared, "PYTHONDONTWRITEBYTECODE=1")
		return err
	}
	p, err := t.Find(ctx, need)
	if p.Version != "" {
		c.Versions = append(c.Versions, p.Version)
	}
	switch c.values = append(c.values, "{"+need+"}", p.Bin); {
	case need == Tare:
		c.tare = p.Bin
	case need != Nginx:
		c.env = append(c.env, p.Env...)
	case err == nil:
		c.Nginx = &p
	}
	return err
}

// fill returns words with placeholders replaced: the contender's, and those of pairs, each followed
// by its value.
func (c *Contender) fill(words []string, pairs ...string) []string {
	if i := slices.Index(words, "{bin}"); i >= 0 && len(c.builtin) > 0 {
		words = slices.Insert(slices.Clone(words), i+1, c.builtin...)
	}
	values := strings.NewReplacer(slices.Concat(c.values, []string{"{bin}", c.Bin, "{home}", c.Dir}, pairs)...)
	filled := make([]string, len(words))
	for i := range words {
		filled[i] = values.Replace(words[i])
	}
	return filled
}

// Tool returns the path of a program that the contender needs, and the variables of its programs.
func (c *Contender) Tool(need string) (path string, env []string) {
	return c.fill([]string{"{" + need + "}"})[0], c.env
}

func (c *Contender) findCompiler(ctx context.Context) error {
	out, err := (&Command{Dir: c.Dir}).Run(ctx, "cc", "--version")
	if err != nil {
		return missing("cc", err.Error(), "apt-get install gcc libc6-dev")
	}
	version, _, _ := strings.Cut(Printable(out), "\n")
	c.Versions = append(c.Versions, version)
	return nil
}

func (t *Tools) logf(format string, args ...any) {
	if t.Logf != nil {
		t.Logf(format, args...)
	}
}

func (t *Tools) build(ctx context.Context, c *Contender) error {
	if c.Build == "" || len(c.builtin) > 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(c.Bin), 0o755); err != nil {
		return err
	}
	t.logf("building %s", c.Title)
	words := c.fill(strings.Fields(c.Build))
	_, err := (&Command{Dir: c.Dir, Env: t.GoEnv}).Run(ctx, words[0], t.withFlags(words)[1:]...)
	if err == nil {
		return nil
	}
	if errors.Is(err, exec.ErrNotFound) {
		return c.lacks(words[0])
	}
	if words[0] == Go {
		if err := t.findModules(ctx, c.Dir); err != nil {
			return err
		}
	}
	return fmt.Errorf("build: %s: %w", strings.Join(words, " "), err)
}

// buildVersions reads from a binary the versions of Go and of the contender's module. A binary that
// Go did not build has none.
func (c *Contender) buildVersions(bin string) []string {
	info, err := buildinfo.ReadFile(bin)
	if err != nil {
		return nil
	}
	versions := []string{info.GoVersion}
	for _, m := range append(info.Deps, &info.Main) {
		if c.Module != "" && m.Path == c.Module {
			version := m.Version
			if m.Replace != nil || m == &info.Main && m.Sum == "" {
				version = "of this checkout"
			}
			versions = append(versions, m.Path+" "+version)
		}
	}
	return versions
}

// readVersions reads versions from the binaries, and from the output of the contender's version
// line.
func (c *Contender) readVersions(ctx context.Context) error {
	if len(c.builtin) > 0 {
		c.Versions = append(c.Versions, "built into tare")
	}
	for _, bin := range []string{c.Bin, c.tare} {
		for _, version := range c.buildVersions(bin) {
			if !slices.Contains(c.Versions, version) {
				c.Versions = append(c.Versions, version)
			}
		}
	}
	if c.Version == "" {
		return nil
	}
	words := c.fill(strings.Fields(c.Version))
	out, err := (&Command{Dir: c.Dir, Env: c.env}).Run(ctx, words[0], words[1:]...)
	if err != nil {
		return fmt.Errorf("version: %s: %w", strings.Join(words, " "), err)
	}
	c.Versions = append(c.Versions, strings.Split(Printable(bytes.TrimSpace(out)), "\n")...)
	return nil
}
