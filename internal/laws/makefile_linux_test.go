//go:build !race

package laws

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// "make fuzz" finds all fuzz targets and runs them. It fails with the names of targets that fail
// and of packages that do not build.
func TestMakeFuzzRunsEveryTarget(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not in PATH")
	}
	makefile := filepath.Join(programs.Root(t), "Makefile")
	const test = "package x\nimport \"testing\"\n"
	target := func(name, body string) string {
		return "func " + name + "(f *testing.F) { f.Add([]byte(\"1\")); f.Fuzz(func(t *testing.T, b []byte) { " + body +
			" }) }\n"
	}
	files := map[string]string{
		"go.mod":           "module x\ngo 1.26\n",
		"good/x_test.go":   test + target("FuzzGood", ""),
		"none/x.go":        "package x\n",
		"none/x_test.go":   test + "func TestNone(*testing.T) {}\n",
		"untested/x.go":    "package x\n",
		"partly/x_test.go": test + target("FuzzBad", `if len(b) != 1 { t.Fatal("found") }`) + target("FuzzNext", ""),
	}
	run := func() (string, error) {
		dir := t.TempDir()
		for name, text := range files {
			name = filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		c := testkit.Command(t, "make", "-f", makefile, "fuzz", "FUZZTIME=500x")
		c.Dir, c.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off", "MAKEFLAGS=")
		out, err := c.CombinedOutput()
		return string(out), err
	}
	out, err := run()
	if want := "failed: x/partly:FuzzBad\n"; err == nil || !strings.Contains(out, want) {
		t.Errorf("%v, want an error and %q in\n%s", err, want, out)
	}
	for _, want := range []string{"x/good FuzzGood\n", "x/partly FuzzNext\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	delete(files, "partly/x_test.go")
	if out, err = run(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	files["broken/x_test.go"] = test + "func FuzzBroken(*testing.F) { broken }\n"
	if out, err = run(); err == nil || !strings.Contains(out, "failed: x/broken\n") {
		t.Errorf("%v of a package that does not build:\n%s", err, out)
	}
}
