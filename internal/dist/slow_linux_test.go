package main

import (
	_ "embed"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

//go:embed testdata/install.sh
var installScript string

func skipUnlessSlow(t *testing.T) {
	t.Helper()
	if os.Getenv("TARE_SLOW") == "" {
		t.Skip("needs minutes (run with TARE_SLOW=1)")
	}
}

// copySource copies the files of the checkout that git knows or would add.
func copySource(t *testing.T, root, to string) {
	t.Helper()
	names, err := git(t.Context(), root, "ls-files", "--cached", "--others", "--exclude-standard")
	testkit.Must(t, err)
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
	skipUnlessSlow(t)
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
	sums, err := os.ReadFile(filepath.Join(first.folder, sumsFile))
	testkit.Must(t, err)
	if again, err := os.ReadFile(filepath.Join(second.folder, sumsFile)); err != nil || string(again) != string(sums) {
		t.Errorf("%v: the sums differ:\n%s\n%s", err, sums, again)
	}
	c := testkit.Command(t, "sha256sum", "--strict", "-c", sumsFile)
	c.Dir = first.folder
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v: %s", err, out)
	}
	if got, want := strings.Count(string(sums), "\n"), 2*len(platforms())+2*len(packagedPlatforms()); got != want {
		t.Errorf("got %d files, want %d", got, want)
	}
}

// maxBinaryBytes is 1.2 times the size that the program had before certificates, upgrades and
// packages were added, and 3 MB for the methods that text/template keeps in a program.
// docs/decisions.md#dependencies has the sizes.
const maxBinaryBytes = 27_200_000

// The default program stays small.
func TestBinaryIsSmall(t *testing.T) {
	skipUnlessSlow(t)
	a := artifacts{release: testRelease(), source: programs.Root(t), folder: t.TempDir()}
	p := platform{"linux", "amd64"}
	testkit.Must(t, a.binary(t.Context(), p))
	info, err := os.Stat(a.path(p, ""))
	testkit.Must(t, err)
	if t.Logf("%d bytes", info.Size()); info.Size() > maxBinaryBytes {
		t.Errorf("the program has %d bytes, want at most %d", info.Size(), maxBinaryBytes)
	}
}

// The Debian package has its files with their modes and owners. Installed in a root of its own, it
// starts nothing. Its program serves with the privileges of the unit, is replaced by SIGUSR2, and
// leaves nothing after it was purged.
func TestDebianPackageCanBeInstalledAndPurged(t *testing.T) {
	skipUnlessSlow(t)
	for _, program := range []string{"dpkg-deb", "dpkg", "unshare", "setpriv", "ip", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			skipMissing(t, program+" is not in PATH")
		}
	}
	a := artifacts{release: testRelease(), source: programs.Root(t), folder: t.TempDir()}
	for _, p := range packagedPlatforms() { // packages needs all
		testkit.Must(t, a.binary(t.Context(), p))
	}
	testkit.Must(t, a.packages(t.Context()))
	deb := a.path(thisPlatform(), ".deb")
	t.Run("contents", func(t *testing.T) { checkContents(t, deb) })
	t.Run("installed", func(t *testing.T) { checkInstalled(t, deb, olderPackage(t, a)) })
}

// olderPackage makes a package of an older version with the same program. Its configuration files
// differ.
func olderPackage(t *testing.T, a artifacts) (deb string) {
	t.Helper()
	a.release.version = "v1.2.2"
	shared, err := a.shared(t.Context())
	testkit.Must(t, err)
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
		skipMissing(t, "cannot make a root of its own: "+err.Error()+": "+string(out))
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
