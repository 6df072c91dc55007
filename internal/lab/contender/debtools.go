package contender

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// program is an executable with the environment that it needs.
type program struct {
	path string
	env  []string
}

// debianTool is a program with its Debian packages.
type debianTool struct {
	packages []string
	program  string
	probe    []string // arguments with which it succeeds if it is complete
}

func debianTools() map[string]debianTool {
	return map[string]debianTool{
		MiniHTTPD: {[]string{"mini-httpd"}, "mini_httpd", []string{"-V"}},
		H2O:       {[]string{"h2o"}, "h2o", []string{"--version"}},
		Caddy:     {[]string{"caddy"}, "caddy", []string{"version"}},
		HAProxy:   {[]string{"haproxy"}, "haproxy", []string{"-v"}},
		MariaDB:   {[]string{"mariadb-server-core"}, "mariadbd", []string{"--no-defaults", "--version"}},
		Ruby: {
			[]string{"ruby", "thin", "ruby-sinatra"}, "ruby",
			[]string{"-r", "thin", "-r", "sinatra/base", "-e", "exit! true"},
		},
	}
}

// fromDebian finds a program on the machine, or unpacks its Debian packages.
func (t *Tools) fromDebian(ctx context.Context, need string) (program, error) {
	tool := debianTools()[need]
	p := program{path: "/usr/sbin/" + tool.program}
	if path, err := exec.LookPath(tool.program); err == nil {
		p.path = path
	}
	_, err := p.run(ctx, tool.probe...)
	if err == nil || ctx.Err() != nil {
		return p, ctx.Err()
	}
	tree, err := t.Packages(ctx, need, tool.packages)
	if err == nil {
		p.env = append(tree.Env(), tree.rubyEnv()...)
		if path := tree.program(tool.program); path != "" {
			p.path = path
		}
		_, err = p.run(ctx, tool.probe...)
	}
	if ctx.Err() != nil {
		return p, ctx.Err()
	}
	if err != nil {
		return p, missing(need, err.Error(), "apt-get install "+strings.Join(tool.packages, " "))
	}
	return p, nil
}

func (p program) run(ctx context.Context, args ...string) ([]byte, error) {
	out, err := commandWith(ctx, p.env, "/", p.path, args...)
	if err != nil {
		return out, errors.Join(fmt.Errorf("%s %s: %w", p.path, strings.Join(args, " "), err), lastLineOf(out))
	}
	return out, nil
}

// program returns the path of a program of the tree, or "".
func (t Tree) program(name string) string {
	for _, dir := range []string{"usr/bin", "usr/sbin"} {
		path := filepath.Join(t.Root, dir, name)
		if _, err := exec.LookPath(path); err == nil {
			return path
		}
	}
	return ""
}

// rubyEnv returns the environment in which Ruby finds the tree's Ruby libraries.
func (t Tree) rubyEnv() []string {
	var dirs []string
	for _, pattern := range []string{
		"usr/lib/ruby/vendor_ruby", "usr/lib/*-linux-gnu*/ruby/vendor_ruby/[0-9]*",
		"usr/lib/ruby/[0-9]*", "usr/lib/*-linux-gnu*/ruby/[0-9]*",
		"usr/share/rubygems-integration/*/gems/*/lib", "usr/lib/*-linux-gnu*/rubygems-integration/*/gems/*/lib",
		"usr/lib/*-linux-gnu*/rubygems-integration/*/extensions/*/*/*",
	} {
		found, _ := filepath.Glob(filepath.Join(t.Root, pattern))
		dirs = append(dirs, found...)
	}
	if len(dirs) == 0 {
		return nil
	}
	return []string{"RUBYLIB=" + strings.Join(dirs, ":")}
}
