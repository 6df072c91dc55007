package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// Output is that of "go test": of packages and failed tests, not of passed ones. Skipped tests are
// recorded.
func TestOnlyFailuresAndPackagesArePrinted(t *testing.T) {
	dir := t.TempDir()
	testkit.WriteFile(t, filepath.Join(dir, "go.mod"), "module example.org/m\n\ngo 1.26\n")
	testkit.WriteFile(t, filepath.Join(dir, "a_test.go"), `package a
import "testing"
func TestPass(t *testing.T) { t.Log("quiet") }
func TestSkip(t *testing.T) { t.Skip("nginx is missing") }
func TestFail(t *testing.T) { t.Run("sub", func(t *testing.T) { t.Error("it broke") }) }
func TestPanic(t *testing.T) { println("last words"); panic("it ended") }
`)
	t.Chdir(dir)
	var out strings.Builder
	code, err := run([]string{"./..."}, &out, "skips")
	if code != 1 || err != nil {
		t.Fatal(code, err)
	}
	for _, want := range []string{"it broke", "it ended", "FAIL\texample.org/m"} {
		testkit.Contains(t, out.String(), want, "the output")
	}
	testkit.Lacks(t, out.String(), "quiet", "the output, with that of a test that passed")
	if skips, _ := os.ReadFile("skips"); string(skips) != "example.org/m TestSkip: nginx is missing\n" {
		t.Errorf("skips: %q", skips)
	}
	if t.Failed() {
		t.Log(out.String())
	}
}
