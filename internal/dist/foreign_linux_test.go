package main

import (
	"bufio"
	"debug/macho"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// Artifacts that this machine cannot run, or that tare's own code writes, are checked by other
// programs.

// An image is unpacked by another implementation of the format: it has the program and the files
// around it, with their modes, and runs.
func TestImageIsUnpackedByAnotherTool(t *testing.T) {
	skipUnlessSlow(t)
	umoci, env := programs.Umoci(t)
	a := artifacts{release: testRelease(), source: programs.Root(t), folder: t.TempDir()}
	for _, p := range packagedPlatforms() {
		testkit.Must(t, a.binary(t.Context(), p))
	}
	testkit.Must(t, a.packages(t.Context()))
	for _, p := range packagedPlatforms() {
		layout, bundle := t.TempDir(), filepath.Join(t.TempDir(), "bundle")
		run := func(program string, args ...string) {
			t.Helper()
			c := testkit.Command(t, program, args...)
			c.Env = append(os.Environ(), env...)
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("%s: %s %v: %v: %s", p, program, args, err, out)
			}
		}
		run("tar", "-xf", a.path(p, ".oci.tar"), "-C", layout)
		run(umoci, "unpack", "--rootless", "--image", layout+":"+a.release.fileVersion(), bundle)
		unpacked, err := os.ReadFile(filepath.Join(bundle, "rootfs", "usr", "bin", productName))
		built, builtErr := os.ReadFile(a.path(p, ""))
		if err != nil || builtErr != nil || string(unpacked) != string(built) {
			t.Errorf("%s: the program in the image is another one: %v, %v", p, err, builtErr)
		}
		info, err := os.Stat(filepath.Join(bundle, "rootfs", "usr", "bin", productName))
		if err != nil || info.Mode() != 0o755 {
			t.Errorf("%s: %v, %v", p, info, err)
		}
		if p == thisPlatform() {
			runImage(t, bundle)
		}
	}
}

// runImage checks that the process of a container of the image serves its folder, as the image's
// user.
func runImage(t *testing.T, bundle string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(bundle, "config.json"))
	testkit.Must(t, err)
	var config struct {
		Process struct {
			User struct{ UID, GID int }
			Args []string
		}
	}
	testkit.Must(t, json.Unmarshal(text, &config))
	const script = `set -eu
user=$1 root=$2
shift 2
ip link set lo up
mkdir -p "$root/proc"
mount -t proc proc "$root/proc"
echo "from the image" >"$root/srv/www/index.html"
chroot --userspec="$user" "$root" "$@" 2>/dev/null &
curl -sS --max-time 60 --retry 600 --retry-delay 0 --retry-connrefused http://127.0.0.1:8080/ 2>/dev/null
grep "^Uid:" "/proc/$!/status"
kill -TERM $!
wait $!
`
	user := fmt.Sprintf("%d:%d", config.Process.User.UID, config.Process.User.GID)
	out, err := isolated(t, append([]string{"--mount-proc", "sh", "-c", script, "sh", user,
		filepath.Join(bundle, "rootfs")}, config.Process.Args...)...).CombinedOutput()
	const id = "\t65532"
	if want := "from the image\nUid:" + strings.Repeat(id, 4) + "\n"; err != nil || string(out) != want {
		t.Errorf("%v of %s: got %q, %v; want %q", config.Process.Args, user, out, err, want)
	}
}

// The binary for arm64 serves a file, in an emulator.
func TestBinaryForARM64Serves(t *testing.T) {
	skipUnlessSlow(t)
	qemu, env := programs.QEMU(t)
	a := artifacts{release: testRelease(), source: programs.Root(t), folder: t.TempDir()}
	p := platform{"linux", "arm64"}
	testkit.Must(t, a.binary(t.Context(), p))
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "index.html"), []byte("from arm64"), 0o644))
	// Landlock would have to confine the emulator's own threads, too.
	c := exec.Command(qemu, a.path(p, ""), "serve", "--listen", "127.0.0.1:0", "--user", "", "--sandbox", "off", dir)
	c.Env = append(os.Environ(), env...)
	messages, err := c.StderrPipe()
	testkit.Must(t, err)
	process := testkit.Start(t, c)
	var text strings.Builder
	lines, url := bufio.NewScanner(messages), ""
	for url == "" && lines.Scan() {
		text.WriteString(lines.Text() + "\n")
		url = regexp.MustCompile("http://[0-9.:]+/").FindString(lines.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, messages) }()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatalf("%v:\n%s", err, text.String())
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "from arm64" {
		t.Errorf("%q, %v", b, err)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := process.Wait(); err != nil {
		t.Error(err)
	}
}

// The binaries for macOS are executables of their architecture. No program here runs them.
func TestBinariesForMacOSAreExecutables(t *testing.T) {
	skipUnlessSlow(t)
	a := artifacts{release: testRelease(), source: programs.Root(t), folder: t.TempDir()}
	cpus := map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}
	for _, p := range platforms() {
		if p.os != "darwin" {
			continue
		}
		testkit.Must(t, a.binary(t.Context(), p))
		f, err := macho.Open(a.path(p, ""))
		testkit.Must(t, err)
		f.Close()
		if f.Type != macho.TypeExec || f.Cpu != cpus[p.arch] {
			t.Errorf("%s: %v for %v", p, f.Type, f.Cpu)
		}
	}
}
