// Package programs brings the real programs that tests use: nginx, wrk, ab, siege, a browser,
// php-fpm, flup. One that cannot be had is a visible skip, or a failure where the environment says
// CI=true.
package programs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tarehq/tare/lab/contender"
)

// Root returns the project's folder.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("not inside the project")
	return ""
}

// Tools returns tools that keep what they bring in the project's cache, as the
// command does.
func Tools(t testing.TB) *contender.Tools {
	t.Helper()
	return &contender.Tools{Cache: filepath.Join(Root(t), ".cache"), Say: t.Logf}
}

// Nginx returns an nginx that runs.
func Nginx(t testing.TB) *contender.NginxTool {
	t.Helper()
	unpackMu.Lock()
	defer unpackMu.Unlock()
	n, err := Tools(t).Nginx(context.Background())
	if err != nil {
		skipMissing(t, err.Error())
	}
	return n
}

// Wrk returns a command line that starts wrk, and the environment it needs.
func Wrk(t testing.TB) (path string, env []string) {
	t.Helper()
	if path, err := exec.LookPath("wrk"); err == nil {
		return path, nil
	}
	unpackMu.Lock()
	defer unpackMu.Unlock()
	tree, err := Tools(t).Package(context.Background(), "wrk")
	if err != nil {
		skipMissing(t, "wrk: "+err.Error())
	}
	return filepath.Join(tree.Root, "usr/bin/wrk"), tree.Env()
}

// Chromium returns the path of a browser that can run without a display.
func Chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	skipMissing(t, "no chromium in PATH; \"apt-get install chromium\" brings it")
	return ""
}

// unpacking keeps tests of one process from unpacking the same package at a time.
var unpackMu sync.Mutex

func skipMissing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}
