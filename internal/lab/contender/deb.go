package contender

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// Package downloads Debian packages and unpacks them into the cache as the tree of a name, with all
// dependencies that the machine lacks. Without packages it is the one of that name. Package does
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
