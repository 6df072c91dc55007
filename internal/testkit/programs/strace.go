package programs

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// Strace returns a strace that is allowed to trace.
func Strace(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err != nil {
		unpackMu.Lock()
		defer unpackMu.Unlock()
		tree, err := Tools(t).Package(context.Background(), "strace")
		if err != nil {
			skipMissing(t, "strace: "+err.Error())
		}
		path = filepath.Join(tree.Root, "usr/bin/strace")
	}
	if out, err := testkit.Command(t, path, "-o", "/dev/null", path, "-V").CombinedOutput(); err != nil {
		skipMissing(t, "strace cannot trace: "+err.Error()+": "+string(out))
	}
	return path
}
