package programs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// AB returns a working ab and the environment it needs.
func AB(t testing.TB) (path string, env []string) {
	t.Helper()
	// libaprutil1 needs libexpat1.
	path, env, err := findTool(t, "ab", "apache2-utils", nil, "libexpat1")
	if err != nil {
		skipMissing(t, "ab: "+err.Error())
	}
	return path, env
}

// Siege returns a working siege 4.0 and the environment it needs, without any user's configuration.
func Siege(t testing.TB) (path string, env []string) {
	t.Helper()
	// If the folder does not exist, siege creates it with a configuration.
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".siege"), 0o755); err != nil {
		t.Fatal(err)
	}
	rc := filepath.Join(home, ".siege", "siege.conf")
	if err := os.WriteFile(rc, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	path, env, err := findTool(t, "siege", "siege", []string{"HOME=" + home})
	if err != nil {
		skipMissing(t, "siege: "+err.Error())
	}
	out, _ := version(path, env)
	if !strings.Contains(out, "SIEGE 4.0.") {
		skipMissing(t, fmt.Sprintf("siege: want 4.0, got %q", out))
	}
	return path, env
}

// findTool returns the machine's load generator of that name, or unpacks its Debian package and, if
// it does not run, more packages.
func findTool(t testing.TB, name, pkg string, own []string, more ...string) (path string, env []string, err error) {
	if path, err := exec.LookPath(name); err == nil {
		if _, err = version(path, own); err == nil {
			return path, own, nil
		}
	}
	unpackMu.Lock()
	defer unpackMu.Unlock()
	tools, ctx := Tools(t), context.Background()
	tree, err := tools.Package(ctx, pkg)
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(tree.Root, "usr/bin", name)
	libraries := tree.Env()
	if _, err = version(path, slices.Concat(own, libraries)); err == nil {
		return path, slices.Concat(own, libraries), nil
	}
	for _, pkg := range more {
		another, moreErr := tools.Package(ctx, pkg)
		if moreErr != nil {
			return "", nil, errors.Join(err, moreErr)
		}
		libraries = joinLibraryPaths(libraries, another.Env())
	}
	env = slices.Concat(own, libraries)
	_, err = version(path, env)
	return path, env, err
}

// version returns the output of a program's -V.
func version(path string, env []string) (string, error) {
	c := exec.Command(path, "-V")
	c.Env = slices.Concat(os.Environ(), env)
	out, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s -V: %w: %s", path, err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
