// Package programs provides real programs to tests: nginx, wrk, ab, siege, a browser, php-fpm and
// others. If a program is unavailable, the test is skipped, or fails if the environment has
// CI=true.
package programs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/testkit"
)

// Root returns the project's root folder.
func Root(t testing.TB) string {
	t.Helper()
	for dir := testkit.Value(os.Getwd())(t); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module github.com/tarehq/tare\n") { // not a nested one
			return dir
		}
	}
	t.Fatal("not inside the project")
	return ""
}

// Tools returns tools that cache their downloads in the project's .cache folder, as the command
// does.
func Tools(t testing.TB) *contender.Tools {
	t.Helper()
	testkit.Long(t, "it needs a real program")
	return &contender.Tools{
		Cache: filepath.Join(Root(t), ".cache"), Checkout: Root(t), Logf: t.Logf,
		GoFlags: []string{"-pgo=off"}, // for a profile the command's packages are compiled once more
	}
}

// Nginx returns a working nginx.
func Nginx(t testing.TB) *contender.Program {
	t.Helper()
	unpackMu.Lock()
	defer unpackMu.Unlock()
	n, err := Tools(t).Find(context.Background(), contender.Nginx)
	if err != nil {
		testkit.Missing(t, err.Error())
	}
	return &n
}

// NginxEtc returns the folder of the files that Debian's package installs for nginx.
func NginxEtc(nginx *contender.Program) string {
	return filepath.Join(filepath.Dir(nginx.Bin), "../../etc/nginx")
}

// Chromium returns the path of a browser that can run without a display.
func Chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	testkit.Missing(t, "chromium is not in PATH (install it with \"apt-get install chromium\")")
	return ""
}

// unpackMu prevents concurrent tests from unpacking the same package.
var unpackMu sync.Mutex
