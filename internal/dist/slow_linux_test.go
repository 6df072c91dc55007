package main

import (
	"archive/zip"
	"bufio"
	"debug/macho"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

//go:embed testdata/install.sh
var installScript string

// builtPackages returns artifacts with the packages and images of all platforms.
func builtPackages(t *testing.T) artifacts {
	t.Helper()
	a := artifacts{release: testRelease(), source: programs.Root(t), folder: t.TempDir()}
	for _, p := range packagedPlatforms() {
		testkit.Must(t, a.binary(t.Context(), p))
	}
	testkit.Must(t, a.packages(t.Context()))
	return a
}

// copySource copies the files of the checkout that git knows or would add.
func copySource(t *testing.T, root, to string) {
	t.Helper()
	names := testkit.Value(git(t.Context(), root, "ls-files", "--cached", "--others", "--exclude-standard"))(t)
	for name := range strings.Lines(names) {
		name = strings.TrimSpace(name)
		b, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) || strings.HasPrefix(name, `"`) {
			continue // removed, or not a source file
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), b, 0o644)
		}
		testkit.Must(t, err)
	}
}

// Builds in two folders with build caches of their own make the same binaries, and packages and
// images made twice of them are the same.
func TestBuildsAreIdentical(t *testing.T) {
	testkit.NeedSlow(t)
	root, copied := programs.Root(t), t.TempDir()
	copySource(t, root, copied)
	first := artifacts{release: testRelease(), source: root, folder: t.TempDir()}
	second := artifacts{release: testRelease(), source: copied, folder: t.TempDir()}
	cache := os.Getenv("GOCACHE")
	for _, p := range platforms() {
		testkit.Must(t, first.binary(t.Context(), p))
		t.Setenv("GOCACHE", t.TempDir())
		testkit.Must(t, second.binary(t.Context(), p))
		t.Setenv("GOCACHE", cache)
	}
	for _, a := range []artifacts{first, second} {
		testkit.Must(t, a.packages(t.Context()))
		testkit.Must(t, writeSums(a.folder))
	}
	sums := testkit.Value(os.ReadFile(filepath.Join(first.folder, sumsFile)))(t)
	if again, err := os.ReadFile(filepath.Join(second.folder, sumsFile)); err != nil || string(again) != string(sums) {
		t.Errorf("%v: the sums differ:\n%s\n%s", err, sums, again)
	}
	c := testkit.Command(t, "sha256sum", "--strict", "-c", sumsFile)
	c.Dir = first.folder
	testkit.Succeeds(t, c)
	testkit.Equal(t, strings.Count(string(sums), "\n"), 2*len(platforms())+2*len(packagedPlatforms()), "files")
}

// maxBinaryBytes is 1.2 times the size that the program had before certificates, upgrades and
// packages were added, and 3 MB for the methods that text/template keeps in a program.
// docs/decisions.md#dependencies has the sizes.
const maxBinaryBytes = 27_200_000

// The default program stays small.
func TestBinaryIsSmall(t *testing.T) {
	testkit.NeedSlow(t)
	a := artifacts{release: testRelease(), source: programs.Root(t), folder: t.TempDir()}
	p := platform{"linux", "amd64"}
	testkit.Must(t, a.binary(t.Context(), p))
	info := testkit.Value(os.Stat(a.path(p, "")))(t)
	if t.Logf("%d bytes", info.Size()); info.Size() > maxBinaryBytes {
		t.Errorf("the program has %d bytes, want at most %d", info.Size(), maxBinaryBytes)
	}
}

// The Debian package has its files with their modes and owners. Installed in a root of its own, it
// starts nothing. Its program serves with the privileges of the unit, is replaced by SIGUSR2, and
// leaves nothing after it was purged.
func TestDebianPackageCanBeInstalledAndPurged(t *testing.T) {
	testkit.NeedSlow(t)
	needPrograms(t, "dpkg-deb", "dpkg", "unshare", "setpriv", "ip", "curl")
	a := builtPackages(t)
	deb := a.path(thisPlatform(), ".deb")
	t.Run("contents", func(t *testing.T) { checkContents(t, deb) })
	t.Run("installed", func(t *testing.T) { checkInstalled(t, deb, olderPackage(t, a)) })
}

// olderPackage makes a package of an older version with the same program. Its configuration files
// differ.
func olderPackage(t *testing.T, a artifacts) (deb string) {
	t.Helper()
	a.release.version = "v1.2.2"
	shared := testkit.Value(a.shared(t.Context()))(t)
	binary, err := os.ReadFile((&artifacts{release: testRelease(), folder: a.folder}).path(thisPlatform(), ""))
	testkit.Must(t, err)
	files := append(shared.files(), programFiles(binary, nil)...)
	for i := range files {
		if files[i].isConfig {
			files[i].text = append([]byte("# old\n"), files[i].text...)
		}
	}
	testkit.Must(t, a.debian(t.Context(), thisPlatform(), files))
	return a.path(thisPlatform(), ".deb")
}

func thisPlatform() platform { return platform{"linux", runtime.GOARCH} }

func checkContents(t *testing.T, deb string) {
	out, err := testkit.Command(t, "dpkg-deb", "-c", deb).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if fields[1] != "root/root" || fields[3] != "2026-02-03" {
			t.Errorf("%s", line)
		}
		found = append(found, fields[0]+" "+fields[5])
	}
	for _, want := range []string{"-rwxr-xr-x ./usr/bin/tare", "-rw-r--r-- ./etc/tare/nginx.conf",
		"-rw-r--r-- ./etc/logrotate.d/tare", "-rw-r--r-- ./usr/lib/systemd/system/tare.service",
		"-rw-r--r-- ./usr/share/man/man1/tare-serve.1.gz", "-rw-r--r-- ./usr/share/doc/tare/copyright",
		"-rw-r--r-- ./usr/share/bash-completion/completions/tare",
		"-rw-r--r-- ./usr/share/zsh/vendor-completions/_tare",
		"-rw-r--r-- ./usr/share/fish/vendor_completions.d/tare.fish"} {
		if !slices.Contains(found, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	out, err = testkit.Command(t, "dpkg-deb", "-f", deb, "Package", "Version", "Architecture").CombinedOutput()
	want := "Package: tare\nVersion: 1.2.3~rc.1\nArchitecture: " + runtime.GOARCH + "\n"
	if err != nil || string(out) != want {
		t.Errorf("%v: got %s, want %s", err, out, want)
	}
}

// isolated returns a command in namespaces of its own: its mounts, network and processes end with
// it.
func isolated(t *testing.T, args ...string) *exec.Cmd {
	return testkit.Command(t, "unshare", append([]string{"--mount", "--net", "--pid", "--fork", "--kill-child",
		"--propagation", "private"}, args...)...)
}

func checkInstalled(t *testing.T, deb, older string) {
	stage := t.TempDir()
	probe := `mount -t tmpfs tmpfs "$1" && mkdir "$1/u" "$1/w" "$1/r" &&
		mount -t overlay overlay -o "lowerdir=/,upperdir=$1/u,workdir=$1/w" "$1/r"`
	if out, err := isolated(t, "sh", "-c", probe, "sh", stage).CombinedOutput(); err != nil {
		testkit.Missing(t, "cannot make a root of its own: "+err.Error()+": "+string(out))
	}
	_, start, _ := strings.Cut(string(packagedFile("tare.service")), "\nExecStart=")
	start, _, _ = strings.Cut(start, "\n")
	c := isolated(t, "sh", "-c", installScript, "sh", stage, deb, start, testRelease().version, older)
	var out strings.Builder
	c.Stdout, c.Stderr = io.Writer(&out), &out
	if err := c.Run(); err != nil {
		t.Errorf("%v:\n%s", err, out.String())
	}
	if !strings.HasSuffix(out.String(), "all passed\n") {
		t.Errorf("the script did not end:\n%s", out.String())
	}
}

// Artifacts that this machine cannot run, or that tare's own code writes, are checked by other
// programs.

// An image is unpacked by another implementation of the format: it has the program and the files
// around it, with their modes, and runs.
func TestImageIsUnpackedByAnotherTool(t *testing.T) {
	testkit.NeedSlow(t)
	umoci, env := programs.Installed(t, "umoci", "umoci")
	a := builtPackages(t)
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
	text := testkit.Value(os.ReadFile(filepath.Join(bundle, "config.json")))(t)
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
	testkit.NeedSlow(t)
	qemu, env := programs.Installed(t, "qemu-aarch64-static", "qemu-user-static")
	a := artifacts{release: testRelease(), source: programs.Root(t), folder: t.TempDir()}
	p := platform{"linux", "arm64"}
	testkit.Must(t, a.binary(t.Context(), p))
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "index.html"), []byte("from arm64"), 0o644))
	// Landlock would have to confine the emulator's own threads, too.
	c := exec.Command(qemu, a.path(p, ""), "serve", "--listen", "127.0.0.1:0", "--user", "", "--sandbox", "off", dir)
	c.Env = append(os.Environ(), env...)
	messages := testkit.Value(c.StderrPipe())(t)
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
	testkit.Check(t, c.Process.Signal(syscall.SIGTERM))
	testkit.Check(t, process.Wait())
}

// The binaries for macOS are executables of their architecture. No program here runs them.
func TestBinariesForMacOSAreExecutables(t *testing.T) {
	testkit.NeedSlow(t)
	a := artifacts{release: testRelease(), source: programs.Root(t), folder: t.TempDir()}
	cpus := map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}
	for _, p := range platforms() {
		if p.os != "darwin" {
			continue
		}
		testkit.Must(t, a.binary(t.Context(), p))
		f := testkit.Value(macho.Open(a.path(p, "")))(t)
		f.Close()
		if f.Type != macho.TypeExec || f.Cpu != cpus[p.arch] {
			t.Errorf("%s: %v for %v", p, f.Type, f.Cpu)
		}
	}
}

//go:embed testdata/systemd.sh
var systemdScript string

// A systemd runs the unit of the installed package: it starts, reloads, reopens rotated logs, is
// restarted after a crash, and stops. An upgrade of the package replaces it without a restart, and
// a removal stops it. That systemd is process 1 of namespaces of its own, and starts no unit of
// this machine.
func TestSystemdRunsTheUnit(t *testing.T) {
	testkit.NeedSlow(t)
	const systemd = "/lib/systemd/systemd"
	if _, err := os.Stat(systemd); err != nil {
		testkit.Missing(t, systemd+" does not exist (install it with \"apt-get install systemd\")")
	}
	needPrograms(t, "dpkg", "unshare", "ip", "curl")
	a := builtPackages(t)
	runSystemd(t, a.path(thisPlatform(), ".deb"))
}

func runSystemd(t *testing.T, deb string) {
	stage, result := t.TempDir(), filepath.Join(t.TempDir(), "result")
	testkit.Must(t, os.WriteFile(result, nil, 0o600))
	probe := `mount -t tmpfs tmpfs "$1" && mkdir "$1/c" && mount -t cgroup2 cgroup2 "$1/c" &&
		mkdir "$1/c/probe" && rmdir "$1/c/probe"`
	if out, err := isolated(t, "--cgroup", "sh", "-c", probe, "sh", stage).CombinedOutput(); err != nil {
		testkit.Missing(t, "cannot make control groups: "+err.Error()+": "+string(out))
	}
	logrotate, _ := programs.Installed(t, "logrotate", "logrotate")
	c := isolated(t, "--cgroup", "--ipc", "--uts", "sh", "-c", systemdScript, "sh", stage, deb, result,
		filepath.Join(filepath.Dir(logrotate), "../.."))
	messages, _ := c.CombinedOutput() // systemd's exit code does not matter
	text, err := os.ReadFile(result)
	if err != nil || !strings.HasSuffix(string(text), "all passed\n") {
		t.Errorf("%v: %s\n%s", err, text, messages)
	}
}

// "go install" of a tag works from a module proxy: go.mod needs no replace, and the module's zip,
// which lacks nested modules, has all that the command embeds. Contenders are then built from the
// downloaded module, without the proxy.
func TestTagInstallsFromModuleProxy(t *testing.T) {
	testkit.NeedSlow(t)
	const module, version = "github.com/tarehq/tare", "v0.1.0"
	source, proxy, empty, modules, cache := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	copySource(t, programs.Root(t), source)
	mod := testkit.Value(os.ReadFile(filepath.Join(source, "go.mod")))(t)
	files := filepath.Join(proxy, module, "@v", version)
	testkit.WriteFile(t, filepath.Join(filepath.Dir(files), "list"), version+"\n")
	testkit.WriteFile(t, files+".mod", string(mod))
	testkit.WriteFile(t, files+".info", `{"Version": "`+version+`"}`)
	zipModule(t, source, module+"@"+version+"/", files+".zip")

	downloads := testkit.Value(testkit.Command(t, "go", "env", "GOMODCACHE").Output())(t)
	install := testkit.Command(t, "go", "install", module+"/cmd/tare@"+version)
	install.Dir = empty
	install.Env = append(os.Environ(), "GOBIN="+empty, "GOMODCACHE="+modules, "GOFLAGS=-modcacherw", "GOSUMDB=off",
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(strings.TrimSpace(string(downloads)), "cache", "download"))
	testkit.Succeeds(t, install)
	for want, args := range map[string][]string{
		"tare " + version + " ":                          {"version"},
		"What does a proxy in front of a Go server cost": {"weigh", "--list"},
	} {
		c := testkit.Command(t, filepath.Join(empty, "tare"), args...)
		c.Dir, c.Env = empty, append(os.Environ(), "XDG_CACHE_HOME="+cache)
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("tare %s: %v: want %q, got %s", args, err, want, out)
		}
	}
	found, err := filepath.Glob(filepath.Join(cache, "tare", "project-*", "contenders", "go.mod"))
	if err != nil || len(found) != 1 {
		t.Fatalf("unpacked: %v, %v", found, err)
	}
	text, err := os.ReadFile(found[0])
	if want := filepath.Join(modules, module) + "@" + version; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("contenders do not need %s: %v\n%s", want, err, text)
	}
}

// zipModule writes the files of a module, without those of modules below it (go.dev/ref/mod).
func zipModule(t *testing.T, source, prefix, to string) {
	t.Helper()
	f, err := os.Create(to)
	testkit.Must(t, err)
	defer f.Close()
	w := zip.NewWriter(f)
	err = filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != source {
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		entry, err := w.Create(prefix + filepath.ToSlash(name))
		if err != nil {
			return err
		}
		_, err = entry.Write(text)
		return err
	})
	testkit.Must(t, err)
	testkit.Must(t, w.Close())
}
