package programs

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// h2specModule is the version of h2spec that the Go proxy provides.
const h2specModule = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"

// H2Spec returns the path of h2spec, which checks that a server conforms to HTTP/2. If it is not
// installed, it is built in the project's .cache folder.
func H2Spec(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("h2spec"); err == nil {
		return path
	}
	return built(t, "h2spec", "h2spec", h2specModule)
}

// built returns the path of a program of a Go module. It is built in a folder of .cache unless it
// exists.
func built(t testing.TB, folder, program, module string) string {
	t.Helper()
	unpackMu.Lock()
	defer unpackMu.Unlock()
	folder = filepath.Join(Root(t), ".cache", folder)
	path := filepath.Join(folder, program)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	build := testkit.Command(t, "go", "install", module)
	build.Dir = t.TempDir() // outside the module, whose requirements do not apply
	build.Env = append(os.Environ(), "GOBIN="+folder, "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		testkit.Missing(t, program+": "+err.Error()+"\n"+string(out))
	}
	return path
}
