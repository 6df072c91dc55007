package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// Siege returns a working siege 4.0 and the environment it needs, without any user's configuration.
func Siege(t testing.TB) (path string, env []string) {
	t.Helper()
	// If the folder does not exist, siege creates it with a configuration.
	home := t.TempDir()
	testkit.WriteFile(t, filepath.Join(home, ".siege", "siege.conf"), "")
	path, env = Installed(t, "siege", "siege")
	env = append(env, "HOME="+home)
	c := exec.Command(path, "-V")
	c.Env = slices.Concat(os.Environ(), env)
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "SIEGE 4.0.") {
		testkit.Missing(t, fmt.Sprintf("siege: want 4.0, got %q, %v", out, err))
	}
	return path, env
}
