package programs

import (
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// Strace returns a strace that is allowed to trace.
func Strace(t testing.TB) string {
	t.Helper()
	path, _ := Installed(t, "strace", "strace")
	if out, err := testkit.Command(t, path, "-o", "/dev/null", path, "-V").CombinedOutput(); err != nil {
		testkit.Missing(t, "strace cannot trace: "+err.Error()+": "+string(out))
	}
	return path
}
