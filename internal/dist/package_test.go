package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/tarehq/tare/internal/testkit"
)

// The unit is valid. systemd before 253 does not know notify-reload, as the unit says.
func TestUnitIsValid(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		skipMissing(t, "systemd-analyze is not in PATH (install it with \"apt-get install systemd\")")
	}
	unit := string(packagedFile("tare.service"))
	const program = "/usr/bin/tare "
	if strings.Count(unit, program) != 1 {
		t.Fatalf("the unit does not start %s", program)
	}
	verify := func(unit string) (messages []string, err error) {
		path := filepath.Join(t.TempDir(), "tare.service")
		testkit.Must(t, os.WriteFile(path, []byte(unit), 0o644))
		out, err := testkit.Command(t, "systemd-analyze", "verify", "--man=no", path).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if !strings.Contains(line, "Failed to parse service type, ignoring: notify-reload") &&
				strings.Contains(line, "tare.service") { // others are about the machine's units
				messages = append(messages, line)
			}
		}
		return messages, err
	}
	unit = strings.Replace(unit, program, "/bin/true ", 1) // the program is not installed here
	if messages, err := verify(unit); len(messages) != 0 || err != nil {
		t.Errorf("%v: %s", err, messages)
	}
	wrong := strings.Replace(unit, "ProtectSystem=strict", "ProtectSystem=strct", 1)
	if messages, _ := verify(wrong); len(messages) == 0 {
		t.Error("systemd-analyze does not find a mistake")
	}
}

// maxExposure is ten times the exposure level that systemd-analyze 252 computes for the unit, from
// 0 to 100. Of it, 5 are for the network, 2 for system calls to set priorities, 2 to change owners.
const maxExposure = "17"

// The unit stays as confined as it is.
func TestUnitIsConfined(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		skipMissing(t, "systemd-analyze is not in PATH (install it with \"apt-get install systemd\")")
	}
	unit := string(packagedFile("tare.service"))
	assess := func(unit string) (string, error) {
		path := filepath.Join(t.TempDir(), "tare.service")
		testkit.Must(t, os.WriteFile(path, []byte(unit), 0o644))
		out, err := testkit.Command(t, "systemd-analyze", "security", "--offline=true", "--no-pager",
			"--threshold="+maxExposure, path).CombinedOutput()
		return string(out), err
	}
	if out, err := assess(unit); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := assess(strings.Replace(unit, "\nProtectSystem=strict", "", 1)); err == nil {
		t.Errorf("a unit that may write everywhere passes: %s", out)
	}
}

// The process can write where the default configuration and the package's other files say, and
// holds one capability.
func TestUnitAgreesWithTheOtherFiles(t *testing.T) {
	unit, conf := string(packagedFile("tare.service")), string(packagedFile("nginx.conf"))
	for _, line := range []string{"User=www-data", "ProtectSystem=strict", "NoNewPrivileges=yes",
		"CapabilityBoundingSet=CAP_NET_BIND_SERVICE", "AmbientCapabilities=CAP_NET_BIND_SERVICE",
		"LogsDirectory=tare", "StateDirectory=tare", "RuntimeDirectory=tare", "CacheDirectory=tare"} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("the unit has no %s", line)
		}
	}
	for line := range strings.Lines(conf) {
		for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" ;\n", r) }) {
			if rest, ok := strings.CutPrefix(word, "/var/"); ok && !strings.HasPrefix(rest, "www/") &&
				!strings.HasPrefix(rest, "log/tare") && !strings.HasPrefix(rest, "lib/tare") &&
				!strings.HasPrefix(rest, "cache/tare") {
				t.Errorf("the configuration names %s, which the unit does not make", word)
			}
		}
	}
	for _, name := range []string{"postinst", "prerm", "postrm"} {
		path := filepath.Join(t.TempDir(), name)
		testkit.Must(t, os.WriteFile(path, packagedFile(name), 0o644))
		if out, err := testkit.Command(t, "sh", "-n", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// The packager's configuration names existing files, and has fixed times everywhere.
func TestPackageConfigurationNamesExistingFiles(t *testing.T) {
	stage := t.TempDir()
	shared := sharedFiles{man: map[string][]byte{"tare.1": []byte("page")}}
	path, err := stagePackage(stage, "arm64", testRelease(), append(shared.files(), programFiles([]byte("p"), nil)...))
	testkit.Must(t, err)
	text, err := os.ReadFile(path)
	testkit.Must(t, err)
	var config nfpmConfig
	testkit.Must(t, yaml.UnmarshalWithOptions(text, &config, yaml.Strict()))
	const mtime = "2026-02-03T04:05:06Z"
	if config.Version != "1.2.3~rc.1" || config.Arch != "arm64" || config.MTime != mtime {
		t.Errorf("got version %s for %s at %s", config.Version, config.Arch, config.MTime)
	}
	found := make(map[string]string)
	for _, c := range config.Contents {
		found[c.Dst] = c.Type
		if _, err := os.Stat(c.Src); err != nil && c.Type != "dir" || c.FileInfo.MTime != mtime {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for path, kind := range map[string]string{"/usr/bin/tare": "", "/etc/tare/nginx.conf": "config",
		"/usr/share/man/man1/tare.1.gz": "", "/etc/logrotate.d/tare": "config"} {
		if got, ok := found[path]; !ok || got != kind {
			t.Errorf("%s: got type %q, %v; want %q", path, got, ok, kind)
		}
	}
}
