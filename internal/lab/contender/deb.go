package contender

import (
	"bytes"
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
	dirs, _ := filepath.Glob(filepath.Join(t.Root, "usr/lib/*-linux-gnu*"))
	more, _ := filepath.Glob(filepath.Join(t.Root, "lib/*-linux-gnu*"))
	dirs = append(dirs, more...)
	if len(dirs) == 0 {
		return nil
	}
	return []string{"LD_LIBRARY_PATH=" + strings.Join(dirs, ":")}
}

// Package downloads Debian packages and unpacks them into the cache, with the libraries that they
// depend on and the machine lacks. It does not install them: it runs none of their scripts and
// needs no privilege.
func (t *Tools) Package(ctx context.Context, names ...string) (Tree, error) {
	return t.tree(names[0], func(work string) error {
		fresh := filepath.Join(work, "root")
		if err := t.download(ctx, work, names); err != nil {
			return err
		}
		if err := unpack(ctx, work, fresh); err != nil {
			return err
		}
		return t.addLibraries(ctx, work, Tree{fresh}, names[0])
	})
}

// Packages is like Package for the tree of that name, but adds all dependencies that the machine
// lacks.
func (t *Tools) Packages(ctx context.Context, name string, names []string) (Tree, error) {
	return t.tree(name, func(work string) error {
		out, err := t.apt(ctx, work,
			slices.Concat([]string{"--simulate", "--no-install-recommends", "install"}, names)...)
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
		if err := t.download(ctx, work, needed); err != nil {
			return err
		}
		return unpack(ctx, work, filepath.Join(work, "root"))
	})
}

// tree returns a tree of the cache. If it does not exist, fill makes it in the subfolder root of
// work.
func (t *Tools) tree(name string, fill func(work string) error) (Tree, error) {
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
	if err := fill(work); err != nil {
		return Tree{}, err
	}
	err = os.Rename(filepath.Join(work, "root"), tree.Root)
	if errors.Is(err, os.ErrExist) {
		err = nil // another process has made it meanwhile
	}
	return tree, err
}

// download fetches packages into dir.
func (t *Tools) download(ctx context.Context, dir string, names []string) error {
	_, err := t.apt(ctx, dir, slices.Concat([]string{"download"}, names)...)
	return err
}

// apt runs apt-get without privilege. If that fails because the machine's package lists are empty,
// as in a new container, it downloads lists into the cache and tries again.
func (t *Tools) apt(ctx context.Context, dir string, args ...string) ([]byte, error) {
	options := []string{"-o", "APT::Sandbox::User=root"}
	out, err := command(ctx, dir, "apt-get", slices.Concat(options, args)...)
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
	if more, updateErr := command(ctx, dir, "apt-get",
		slices.Concat(options, []string{"update"})...); updateErr != nil {
		return nil, fmt.Errorf("apt-get %s: %w: %s; apt-get update: %w: %s", args[0], err, lastLine(out), updateErr,
			lastLine(more))
	}
	out, err = command(ctx, dir, "apt-get", slices.Concat(options, args)...)
	if err != nil {
		return nil, fmt.Errorf("apt-get %s: %w: %s", args[0], err, lastLine(out))
	}
	return out, nil
}

// unpack extracts all packages in dir into root.
func unpack(ctx context.Context, dir, root string) error {
	packages, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return err
	}
	for _, p := range packages {
		if out, err := command(ctx, dir, "dpkg", "-x", p, root); err != nil {
			return fmt.Errorf("dpkg -x %s: %w: %s", filepath.Base(p), err, lastLine(out))
		}
	}
	return nil
}

// addLibraries unpacks the libraries that the package's programs need and the machine lacks.
func (t *Tools) addLibraries(ctx context.Context, work string, tree Tree, name string) error {
	if !lacksLibrary(ctx, tree) {
		return nil
	}
	own, err := filepath.Glob(filepath.Join(work, name+"_*.deb"))
	if err != nil || len(own) == 0 {
		return fmt.Errorf("no downloaded file %s_*.deb", name)
	}
	out, err := command(ctx, work, "dpkg-deb", "-f", own[0], "Depends")
	if err != nil {
		return fmt.Errorf("dpkg-deb: %w: %s", err, lastLine(out))
	}
	var libraries []string
	for depend := range strings.SplitSeq(string(out), ",") {
		depend, _, _ = strings.Cut(depend, "|") // of alternatives, the first
		if fields := strings.Fields(depend); len(fields) > 0 && strings.HasPrefix(fields[0], "lib") {
			libraries = append(libraries, fields[0])
		}
	}
	if len(libraries) == 0 {
		return nil
	}
	sub := filepath.Join(work, "libraries")
	if err := os.Mkdir(sub, 0o755); err != nil {
		return err
	}
	if err := t.download(ctx, sub, libraries); err != nil {
		return err
	}
	return unpack(ctx, sub, tree.Root)
}

// lacksLibrary reports whether the loader does not find a library of one of the tree's programs.
func lacksLibrary(ctx context.Context, tree Tree) bool {
	for _, dir := range []string{"usr/sbin", "usr/bin"} {
		programs, _ := filepath.Glob(filepath.Join(tree.Root, dir, "*"))
		for _, p := range programs {
			if out, _ := command(ctx, tree.Root, "ldd", p); bytes.Contains(out, []byte("not found")) {
				return true
			}
		}
	}
	return false
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(Printable(out)), "\n")
	return lines[len(lines)-1]
}
