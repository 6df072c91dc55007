package cli_test

import (
	"archive/zip"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// installedVersion is the version of the module that the test publishes.
const installedVersion = "v0.0.1-test"

// The command that "go install" made from a published module measures in an empty folder with an
// empty cache. All its contenders take part, built with the published module.
func TestInstalledCommandWeighs(t *testing.T) {
	if os.Getenv("TARE_SLOW") == "" {
		t.Skip("needs minutes (run with TARE_SLOW=1)")
	}
	home := t.TempDir()
	was := goEnv(t, "GOCACHE", "GOMODCACHE", "GOPROXY")
	proxy := strings.Join([]string{
		"file://" + publish(t), "file://" + filepath.Join(was["GOMODCACHE"], "cache/download"), was["GOPROXY"],
	}, ",")
	env := append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, "cache"), "GOCACHE="+was["GOCACHE"],
		"GOPATH="+filepath.Join(home, "go"), "GOMODCACHE="+filepath.Join(home, "modules"), "GOFLAGS=-modcacherw",
		"GOPROXY="+proxy, "GONOSUMDB=github.com/tarehq/tare", "GOBIN="+filepath.Join(home, "bin"))
	empty := filepath.Join(home, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	do := func(name string, args ...string) string {
		t.Helper()
		c := testkit.Command(t, name, args...)
		c.Dir, c.Env = empty, env
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	do("go", "install", "github.com/tarehq/tare/cmd/tare@"+installedVersion)
	tare := filepath.Join(home, "bin", "tare")
	out := do(tare, "weigh", "--quick", "--blocks", "1", "--measure", "200ms", "--warmup", "0s", "--connections", "8",
		"--rate", "off")
	if strings.Contains(out, "left out") || !strings.Contains(out, "\nReport: ") {
		t.Errorf("a contender is missing, or the report:\n%s", out)
	}
	found, err := filepath.Glob(filepath.Join(empty, "results", "*", "contenders.csv"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil || bytes.Contains(text, []byte("of this checkout")) ||
		bytes.Count(text, []byte("github.com/tarehq/tare "+installedVersion)) < 4 {
		t.Errorf("%v: the versions of the contenders:\n%s", err, text)
	}
	do(tare, "weigh", "engines", "--blocks", "1", "--measure", "1ms", "--only", "ServerGet1ReqPerConn-p1")
}

// publish makes a module proxy with the checkout's module, and returns its folder.
func publish(t *testing.T) string {
	t.Helper()
	root := programs.Root(t)
	list := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Fields(string(names))
	isNested := func(name string) bool { // it belongs to another module
		for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
			if _, err := os.Stat(filepath.Join(root, dir, "go.mod")); err == nil {
				return true
			}
		}
		return false
	}
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	for _, name := range all {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) || isNested(name) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		w, err := archive.Create("github.com/tarehq/tare@" + installedVersion + "/" + name)
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := t.TempDir()
	versions := filepath.Join(proxy, "github.com/tarehq/tare/@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		installedVersion + ".info": []byte(`{"Version":"` + installedVersion + `","Time":"2026-01-02T03:04:05Z"}`),
		installedVersion + ".mod":  mod,
		installedVersion + ".zip":  packed.Bytes(),
		"list":                     []byte(installedVersion + "\n"),
	} {
		if err := os.WriteFile(filepath.Join(versions, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return proxy
}
