package programs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// Python returns a Python interpreter that can import packages, and the environment it needs. The
// requirements are pip's, without those of the packages themselves.
func Python(t testing.TB, requirements ...string) (path string, env []string) {
	t.Helper()
	first := requirements[0]
	path, err := exec.LookPath("python3")
	if err != nil {
		testkit.Missing(t, first+": python3 is not in PATH (install it with \"apt-get install python3-pip\")")
	}
	unpackMu.Lock()
	defer unpackMu.Unlock()
	dir := filepath.Join(Root(t), ".cache", "python", first)
	if _, err := os.Stat(dir); err != nil {
		if err := installPython(path, dir, requirements); err != nil {
			testkit.Missing(t, err.Error())
		}
	}
	return path, []string{"PYTHONPATH=" + dir}
}

// installPython installs packages into a folder atomically.
func installPython(python, dir string, requirements []string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "installing-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	fresh := filepath.Join(work, "packages")
	args := []string{"-m", "pip", "install", "--quiet", "--no-deps", "--target", fresh}
	out, err := exec.Command(python, slices.Concat(args, requirements)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("pip install %s: %w: %s", requirements[0], err, strings.TrimSpace(string(out)))
	}
	if err = os.Rename(fresh, dir); errors.Is(err, os.ErrExist) {
		err = nil // another test binary installed it meanwhile
	}
	return err
}
