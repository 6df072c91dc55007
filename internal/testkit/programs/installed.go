package programs

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// Installed returns the path of a program of the machine, or of an unpacked Debian package, and the
// environment it needs.
func Installed(t testing.TB, name, pack string) (path string, env []string) {
	t.Helper()
	for _, path := range []string{name, "/usr/sbin/" + name, "/sbin/" + name} {
		if path, err := exec.LookPath(path); err == nil {
			return path, nil
		}
	}
	return fromPackage(t, pack, "usr/bin/"+name, "usr/sbin/"+name, "bin/"+name, "sbin/"+name)
}

// fromPackage returns the path of the first program that matches a pattern in an unpacked Debian
// package, and the environment it needs.
func fromPackage(t testing.TB, pack string, patterns ...string) (path string, env []string) {
	t.Helper()
	unpackMu.Lock()
	defer unpackMu.Unlock()
	tree, err := Tools(t).Package(context.Background(), pack)
	if err != nil {
		testkit.Missing(t, pack+": "+err.Error())
	}
	for _, pattern := range patterns {
		if found, _ := filepath.Glob(filepath.Join(tree.Root, pattern)); len(found) > 0 {
			return found[0], tree.Env()
		}
	}
	testkit.Missing(t, pack+": not in its Debian package: "+patterns[0])
	return "", nil
}
