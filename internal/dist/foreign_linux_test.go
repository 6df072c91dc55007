package main

import (
	"bufio"
	"debug/macho"
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
// around it, with their modes.
func TestImageIsUnpackedByAnotherTool(t *testing.T) {
	skipUnlessSlow(t)
	umoci, env := programs.Umoci(t)
	a := artifacts{release: testRelease(), source: programs.Root(t), folder: t.TempDir()}
	for _, p := range packagedPlatforms() {
		if err := a.binary(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.packages(t.Context()); err != nil {
		t.Fatal(err)
	}
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
	}
}

// The binary for arm64 serves a file, in an emulator.
func TestBinaryForARM64Serves(t *testing.T) {
	skipUnlessSlow(t)
	qemu, env := programs.QEMU(t)
	a := artifacts{release: testRelease(), source: programs.Root(t), folder: t.TempDir()}
	p := platform{"linux", "arm64"}
	if err := a.binary(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "index.html"), []byte("from arm64"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(qemu, a.path(p, ""), "serve", "--listen", "127.0.0.1:0", "--user", "", dir)
	c.Env = append(os.Environ(), env...)
	messages, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
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
		if err := a.binary(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		f, err := macho.Open(a.path(p, ""))
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if f.Type != macho.TypeExec || f.Cpu != cpus[p.arch] {
			t.Errorf("%s: %v for %v", p, f.Type, f.Cpu)
		}
	}
}
