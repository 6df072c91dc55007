package contender

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Tree is a folder with unpacked Debian packages.
type Tree struct{ Root string }

// Env returns the environment in which the tree's programs find its libraries.
func (t Tree) Env() []string {
	return t.pathVariable("LD_LIBRARY_PATH", "usr/lib/*-linux-gnu*", "lib/*-linux-gnu*")
}

// pathVariable returns an environment variable with the folders of the tree that match patterns.
func (t Tree) pathVariable(name string, patterns ...string) []string {
	var dirs []string
	for _, pattern := range patterns {
		found, _ := filepath.Glob(filepath.Join(t.Root, pattern))
		dirs = append(dirs, found...)
	}
	if len(dirs) == 0 {
		return nil
	}
	return []string{name + "=" + strings.Join(dirs, ":")}
}

// Package downloads Debian packages, with all dependencies that the machine lacks, and unpacks them
// into the cache as the tree of a name. Without packages it takes the package of that name. It does
// not install them: it runs none of their scripts and needs no privilege.
func (t *Tools) Package(ctx context.Context, name string, packages ...string) (Tree, error) {
	if len(packages) == 0 {
		packages = []string{name}
	}
	tree := Tree{filepath.Join(t.Cache, "debian", name)}
	if _, err := os.Stat(tree.Root); err == nil {
		return tree, nil
	}
	for _, program := range []string{"apt-get", "dpkg"} {
		if _, err := exec.LookPath(program); err != nil {
			return Tree{}, fmt.Errorf("not installed, and its Debian package cannot be unpacked without %s", program)
		}
	}
	t.logf("unpacking %s from its Debian package", name)
	if err := os.MkdirAll(filepath.Dir(tree.Root), 0o755); err != nil {
		return Tree{}, err
	}
	work, err := os.MkdirTemp(filepath.Dir(tree.Root), "unpacking-")
	if err != nil {
		return Tree{}, err
	}
	defer os.RemoveAll(work)
	if err := t.unpack(ctx, work, packages); err != nil {
		return Tree{}, err
	}
	err = os.Rename(filepath.Join(work, "root"), tree.Root)
	if errors.Is(err, os.ErrExist) {
		err = nil // another process has made it meanwhile
	}
	return tree, err
}

// apt runs apt-get without privilege. If that fails because the machine's package lists are empty,
// as in a new container, it downloads lists into the cache and tries again.
func (t *Tools) apt(ctx context.Context, dir string, args ...string) ([]byte, error) {
	options := []string{"-o", "APT::Sandbox::User=root"}
	run := func(args ...string) ([]byte, error) {
		out, err := (&Command{Dir: dir}).Run(ctx, "apt-get", slices.Concat(options, args)...)
		if err != nil {
			first, _, _ := strings.Cut(err.Error(), "\n")
			err = fmt.Errorf("apt-get %s: %s", args[0], first)
		}
		return out, err
	}
	out, err := run(args...)
	if err == nil || ctx.Err() != nil {
		return out, err
	}
	own := filepath.Join(t.Cache, "apt")
	for _, d := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(own, d), 0o755); err != nil {
			return nil, err
		}
	}
	options = append(options, "-o", "Dir::State::Lists="+filepath.Join(own, "lists"),
		"-o", "Dir::Cache="+filepath.Join(own, "cache"), "-o", "Debug::NoLocking=1")
	if _, updateErr := run("update"); updateErr != nil {
		return nil, fmt.Errorf("%w; %w", err, updateErr)
	}
	return run(args...)
}

// unpack downloads packages, and those that they need, into a folder, and extracts them in its
// subfolder root.
func (t *Tools) unpack(ctx context.Context, work string, packages []string) error {
	out, err := t.apt(ctx, work, slices.Concat([]string{"--simulate", "--no-install-recommends", "install"}, packages)...)
	if err != nil {
		return err
	}
	var needed []string
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Inst" {
			needed = append(needed, fields[1])
		}
	}
	if len(needed) == 0 {
		return errors.New("its Debian packages are installed, but it does not work")
	}
	if _, err := t.apt(ctx, work, slices.Concat([]string{"download"}, needed)...); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(work, "*.deb"))
	for _, p := range files {
		if _, err := (&Command{Dir: work}).Run(ctx, "dpkg", "-x", p, filepath.Join(work, "root")); err != nil {
			return fmt.Errorf("dpkg -x %s: %w", filepath.Base(p), err)
		}
	}
	return err
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(Printable(out)), "\n")
	return lines[len(lines)-1]
}

type debianTool struct {
	packages []string
	program  string
	probe    []string // arguments with which it succeeds if it is complete
	status   int      // its exit status then
	env      []string // variables that it needs
}

func debianTools() map[string]debianTool {
	return map[string]debianTool{
		Nginx:     {packages: []string{"nginx"}, program: "nginx", probe: []string{"-v"}},
		MiniHTTPD: {packages: []string{"mini-httpd"}, program: "mini_httpd", probe: []string{"-V"}},
		H2O:       {packages: []string{"h2o"}, program: "h2o", probe: []string{"--version"}},
		Caddy:     {packages: []string{"caddy"}, program: "caddy", probe: []string{"version"}},
		HAProxy:   {packages: []string{"haproxy"}, program: "haproxy", probe: []string{"-v"}},
		MariaDB: {
			packages: []string{"mariadb-server-core"}, program: "mariadbd",
			probe: []string{"--no-defaults", "--version"},
		},
		Ruby: {
			packages: []string{"ruby", "thin", "ruby-sinatra"}, program: "ruby",
			probe: []string{"-r", "thin", "-r", "sinatra/base", "-e", "exit! true"},
		},
		Wrk:    {packages: []string{"wrk"}, program: "wrk", probe: []string{"-v"}, status: 1},
		H2load: {packages: []string{"nghttp2-client"}, program: "h2load", probe: []string{"--version"}},
		AB:     {packages: []string{"apache2-utils"}, program: "ab", probe: []string{"-V"}},
		Siege: {
			packages: []string{"siege"}, program: "siege", probe: []string{"-R", "/dev/null", "-V"},
			env: []string{"HOME=/nonexistent"}, // it would make a folder there
		},
	}
}

// fromDebian finds a program on the machine, or unpacks its Debian packages.
func (t *Tools) fromDebian(ctx context.Context, need string) (Program, error) {
	tool := debianTools()[need]
	p := Program{Bin: "/usr/sbin/" + tool.program, Env: tool.env}
	if path, err := exec.LookPath(tool.program); err == nil {
		p.Bin = path
	}
	if p.works(ctx, &tool) == nil {
		return p, nil
	}
	tree, err := t.Package(ctx, need, tool.packages...)
	if err == nil {
		p.Env = slices.Concat(tool.env, tree.Env(), tree.rubyEnv())
		if path := tree.program(tool.program); path != "" {
			p.Bin = path
		}
		err = p.works(ctx, &tool)
	}
	if err != nil {
		return p, missing(need, err.Error(), "apt-get install "+strings.Join(tool.packages, " "))
	}
	return p, nil
}

// Program is a program of the machine, of an unpacked Debian package, or of the checkout.
type Program struct {
	Bin     string
	Env     []string // variables that it needs
	Version string   // "nginx/1.22.1"; "" if it is not known
}

// LoadGenerators returns the names of the load generators that Find finds.
func LoadGenerators() []string { return []string{Tare, Wrk, H2load, AB, Siege} }

// Find finds a program that is needed, or a load generator: the machine's, or one that it unpacks
// into the cache. It needs no privilege, and neither installs nor starts the program.
func (t *Tools) Find(ctx context.Context, name string) (Program, error) {
	return t.once(ctx, name, func() (Program, error) {
		if name == Tare {
			return t.makeTare(ctx)
		}
		return t.fromDebian(ctx, name)
	})
}

// works runs the program and sets its version. It returns an error if the program is incomplete.
func (p *Program) works(ctx context.Context, tool *debianTool) error {
	out, err := (&Command{Dir: "/", Env: p.Env}).Run(ctx, p.Bin, tool.probe...)
	if version := regexp.MustCompile(`\d+\.\d[\w.+~-]*`).Find(out); version != nil {
		p.Version = tool.program + "/" + string(version)
	}
	e, hasExited := errors.AsType[*exec.ExitError](err)
	if err == nil || hasExited && e.ExitCode() == tool.status {
		return nil
	}
	return fmt.Errorf("%s %s: %w", p.Bin, strings.Join(tool.probe, " "), err)
}

func (t Tree) program(name string) string {
	for _, dir := range []string{"usr/bin", "usr/sbin"} {
		path := filepath.Join(t.Root, dir, name)
		if _, err := exec.LookPath(path); err == nil {
			return path
		}
	}
	return ""
}

func (t Tree) rubyEnv() []string {
	return t.pathVariable("RUBYLIB",
		"usr/lib/ruby/vendor_ruby", "usr/lib/*-linux-gnu*/ruby/vendor_ruby/[0-9]*",
		"usr/lib/ruby/[0-9]*", "usr/lib/*-linux-gnu*/ruby/[0-9]*",
		"usr/share/rubygems-integration/*/gems/*/lib", "usr/lib/*-linux-gnu*/rubygems-integration/*/gems/*/lib",
		"usr/lib/*-linux-gnu*/rubygems-integration/*/extensions/*/*/*")
}
