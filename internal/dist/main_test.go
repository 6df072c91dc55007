package main

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/cli"
	"github.com/tarehq/tare/internal/testkit"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == productName { // see linkedProgram
		os.Exit(cli.Main())
	}
	os.Exit(testkit.Tests{M: m}.Run())
}

func testRelease() release {
	return release{version: "v1.2.3-rc.1", time: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)}
}

// buildInfo returns what a binary says about its modules.
func buildInfo() *debug.BuildInfo {
	return &debug.BuildInfo{GoVersion: "go1.26.1 X:something", Deps: []*debug.Module{
		{Path: "example.org/a", Version: "v1.0.0", Sum: "h1:AAAA"},
		{Path: "example.org/b", Version: "v2.0.0+incompatible",
			Replace: &debug.Module{Path: "example.org/fork", Version: "v2.0.1+incompatible", Sum: "h1:BBBB"}},
	}}
}

// skipMissing skips a test that needs something, or fails on CI.
func skipMissing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

func TestPackagesOrderVersionsAsReleased(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3":                             "1.2.3",
		"v1.2.3-rc.1":                        "1.2.3~rc.1",
		"v0.0.0-20260203040506-0123456789ab": "0.0.0~20260203040506.0123456789ab",
		"v0.0.0-20260203040506-0123456789ab+dirty": "0.0.0~20260203040506.0123456789ab+dirty",
	} {
		if err := checkVersion(version); err != nil {
			t.Error(err)
		}
		if got := (release{version: version}).debianVersion(); got != want {
			t.Errorf("%s: got %s, want %s", version, got, want)
		}
	}
	for _, version := range []string{"", "v", "1.2.3", "vx", "v1 2", "v1/../2", "v1'", "v1\n"} {
		if err := checkVersion(version); err == nil {
			t.Errorf("%q is accepted", version)
		}
	}
}

// The version of a checkout is its tag, or names the commit, and uncommitted changes are visible.
func TestCheckoutHasTheVersionOfItsTagOrCommit(t *testing.T) {
	dir := t.TempDir()
	must := func(args ...string) string {
		t.Helper()
		args = append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)
		out, err := git(t.Context(), dir, args...)
		testkit.Must(t, err)
		return out
	}
	t.Setenv("GIT_AUTHOR_DATE", "2026-02-03T04:05:06Z")
	t.Setenv("GIT_COMMITTER_DATE", "2026-02-03T05:05:06+0100")
	must("init", "-q")
	must("commit", "-q", "--allow-empty", "-m", "first")
	read := func(want string) {
		t.Helper()
		r, err := readRelease(t.Context(), dir, "")
		if err != nil || r.version != want {
			t.Errorf("got %q, %v; want %q", r.version, err, want)
		}
		if want := "2026-02-03T04:05:06Z"; r.time.Format(time.RFC3339) != want {
			t.Errorf("got %v, want %s", r.time, want)
		}
	}
	read("v0.0.0-20260203040506-" + must("rev-parse", "--short=12", "HEAD"))
	must("tag", "v1.0.0")
	read("v1.0.0")
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "new"), nil, 0o644))
	read("v1.0.0+dirty")
	t.Setenv("SOURCE_DATE_EPOCH", "tomorrow")
	if r, err := readRelease(t.Context(), dir, ""); err == nil {
		t.Errorf("got %v for an invalid SOURCE_DATE_EPOCH", r)
	}
}

// Only a folder that an earlier run has filled is emptied.
func TestForeignFilesAreKept(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "foreign")
	testkit.Must(t, os.WriteFile(foreign, []byte("a"), 0o644))
	if err := emptyFolder(dir); err == nil {
		t.Error("a folder with foreign files is accepted")
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Fatal(err)
	}
	testkit.Must(t, writeSums(dir))
	sums, err := os.ReadFile(filepath.Join(dir, sumsFile))
	const want = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  foreign\n"
	if err != nil || string(sums) != want {
		t.Errorf("got %q, %v; want %q", sums, err, want)
	}
	if err := emptyFolder(dir); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v are left", entries, err)
	}
}
