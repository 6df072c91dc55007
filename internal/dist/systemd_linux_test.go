package main

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

//go:embed testdata/systemd.sh
var systemdScript string

// A systemd runs the unit of the installed package: it starts, reloads, reopens rotated logs, is
// restarted after a crash, and stops. An upgrade of the package replaces it without a restart, and
// a removal stops it. That systemd is process 1 of namespaces of its own, and starts no unit of
// this machine.
func TestSystemdRunsTheUnit(t *testing.T) {
	skipUnlessSlow(t)
	const systemd = "/lib/systemd/systemd"
	if _, err := os.Stat(systemd); err != nil {
		skipMissing(t, systemd+" does not exist (install it with \"apt-get install systemd\")")
	}
	for _, program := range []string{"dpkg", "unshare", "ip", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			skipMissing(t, program+" is not in PATH")
		}
	}
	a := artifacts{release: testRelease(), source: programs.Root(t), folder: t.TempDir()}
	for _, p := range packagedPlatforms() { // packages needs all
		testkit.Must(t, a.binary(t.Context(), p))
	}
	testkit.Must(t, a.packages(t.Context()))
	runSystemd(t, a.path(thisPlatform(), ".deb"))
}

func runSystemd(t *testing.T, deb string) {
	stage, result := t.TempDir(), filepath.Join(t.TempDir(), "result")
	testkit.Must(t, os.WriteFile(result, nil, 0o600))
	probe := `mount -t tmpfs tmpfs "$1" && mkdir "$1/c" && mount -t cgroup2 cgroup2 "$1/c" &&
		mkdir "$1/c/probe" && rmdir "$1/c/probe"`
	if out, err := isolated(t, "--cgroup", "sh", "-c", probe, "sh", stage).CombinedOutput(); err != nil {
		skipMissing(t, "cannot make control groups: "+err.Error()+": "+string(out))
	}
	logrotate, _ := programs.Logrotate(t)
	c := isolated(t, "--cgroup", "--ipc", "--uts", "sh", "-c", systemdScript, "sh", stage, deb, result,
		filepath.Join(filepath.Dir(logrotate), "../.."))
	messages, _ := c.CombinedOutput() // systemd's exit code does not matter
	text, err := os.ReadFile(result)
	if err != nil || !strings.HasSuffix(string(text), "all passed\n") {
		t.Errorf("%v: %s\n%s", err, text, messages)
	}
}
