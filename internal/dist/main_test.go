package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/tarehq/tare/internal/cli"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
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

// needPrograms skips a test unless programs are in PATH, or fails on CI.
func needPrograms(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			testkit.Missing(t, name+" is not in PATH")
		}
	}
}

func TestPackagesOrderVersionsAsReleased(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3":                             "1.2.3",
		"v1.2.3-rc.1":                        "1.2.3~rc.1",
		"v0.0.0-20260203040506-0123456789ab": "0.0.0~20260203040506.0123456789ab",
		"v0.0.0-20260203040506-0123456789ab+dirty": "0.0.0~20260203040506.0123456789ab+dirty",
	} {
		testkit.Check(t, checkVersion(version))
		testkit.Equal(t, (release{version: version}).debianVersion(), want, version)
	}
	for _, version := range []string{"", "v", "1.2.3", "vx", "v1 2", "v1/../2", "v1'", "v1\n"} {
		testkit.Error(t, checkVersion(version), "", version)
	}
}

// The version of a checkout is its tag, or names the commit, and uncommitted changes are visible.
func TestCheckoutHasTheVersionOfItsTagOrCommit(t *testing.T) {
	dir := t.TempDir()
	must := func(args ...string) string {
		t.Helper()
		args = append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)
		return testkit.Value(git(t.Context(), dir, args...))(t)
	}
	t.Setenv("GIT_AUTHOR_DATE", "2026-02-03T04:05:06Z")
	t.Setenv("GIT_COMMITTER_DATE", "2026-02-03T05:05:06+0100")
	must("init", "-q")
	must("commit", "-q", "--allow-empty", "-m", "first")
	read := func(want string) {
		t.Helper()
		r := testkit.Value(readRelease(t.Context(), dir, ""))(t)
		testkit.Equal(t, r.version, want)
		testkit.Equal(t, r.time.Format(time.RFC3339), "2026-02-03T04:05:06Z")
	}
	read("v0.0.0-20260203040506-" + must("rev-parse", "--short=12", "HEAD"))
	must("tag", "v1.0.0")
	read("v1.0.0")
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "new"), nil, 0o644))
	read("v1.0.0+dirty")
	t.Setenv("SOURCE_DATE_EPOCH", "tomorrow")
	testkit.Fails(readRelease(t.Context(), dir, ""))(t, "", "an invalid SOURCE_DATE_EPOCH")
}

// Only a folder that an earlier run has filled is emptied.
func TestForeignFilesAreKept(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "foreign")
	testkit.Must(t, os.WriteFile(foreign, []byte("a"), 0o644))
	testkit.Error(t, emptyFolder(dir), "", "a folder with foreign files")
	testkit.Value(os.Stat(foreign))(t)
	testkit.Must(t, writeSums(dir))
	sums := testkit.Value(os.ReadFile(filepath.Join(dir, sumsFile)))(t)
	const want = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  foreign\n"
	testkit.Equal(t, string(sums), want)
	testkit.Check(t, emptyFolder(dir))
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v are left", entries, err)
	}
}

// The unit is valid. systemd before 253 does not know notify-reload, as the unit says.
func TestUnitIsValid(t *testing.T) {
	unit := string(packagedFile("tare.service"))
	const program = "/usr/bin/tare "
	testkit.Equal(t, strings.Count(unit, program), 1, "the unit has", program)
	verify := func(unit string) (messages []string, err error) {
		out, err := analyze(t, unit, "verify", "--man=no")
		for line := range strings.Lines(out) {
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

// analyze runs systemd-analyze for a unit.
func analyze(t *testing.T, unit string, args ...string) (output string, err error) {
	t.Helper()
	needPrograms(t, "systemd-analyze")
	path := filepath.Join(t.TempDir(), "tare.service")
	testkit.Must(t, os.WriteFile(path, []byte(unit), 0o644))
	out, err := testkit.Command(t, "systemd-analyze", append(args, path)...).CombinedOutput()
	return string(out), err
}

// maxExposure is ten times the exposure level that systemd-analyze 252 computes for the unit, from
// 0 to 100. Of it, 5 are for the network, 2 for system calls to set priorities, 2 to change owners.
const maxExposure = "17"

// The unit stays as confined as it is.
func TestUnitIsConfined(t *testing.T) {
	unit := string(packagedFile("tare.service"))
	assess := func(unit string) (string, error) {
		return analyze(t, unit, "security", "--offline=true", "--no-pager", "--threshold="+maxExposure)
	}
	if out, err := assess(unit); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	writable := strings.Replace(unit, "\nProtectSystem=strict", "", 1)
	testkit.Fails(assess(writable))(t, "", "a unit that may write everywhere")
}

// The process can write where the default configuration and the package's other files say, and
// holds one capability.
func TestUnitAgreesWithTheOtherFiles(t *testing.T) {
	unit, conf := string(packagedFile("tare.service")), string(packagedFile("nginx.conf"))
	for _, line := range []string{"User=www-data", "ProtectSystem=strict", "NoNewPrivileges=yes",
		"CapabilityBoundingSet=CAP_NET_BIND_SERVICE", "AmbientCapabilities=CAP_NET_BIND_SERVICE",
		"LogsDirectory=tare", "StateDirectory=tare", "RuntimeDirectory=tare", "CacheDirectory=tare"} {
		testkit.Contains(t, unit, "\n"+line+"\n", "the unit")
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
		testkit.Succeeds(t, testkit.Command(t, "sh", "-n", path))
	}
}

// The packager's configuration names existing files, and has fixed times everywhere.
func TestPackageConfigurationNamesExistingFiles(t *testing.T) {
	stage := t.TempDir()
	shared := sharedFiles{man: map[string][]byte{"tare.1": []byte("page")}}
	path, err := stagePackage(stage, "arm64", testRelease(), append(shared.files(), programFiles([]byte("p"), nil)...))
	testkit.Must(t, err)
	text := testkit.Value(os.ReadFile(path))(t)
	var config struct {
		Version, Arch, MTime string
		Contents             []struct {
			Src, Dst, Type string
			FileInfo       struct{ MTime string } `yaml:"file_info"`
		}
	}
	testkit.Must(t, yaml.Unmarshal(text, &config))
	const mtime = "2026-02-03T04:05:06Z"
	testkit.Equal(t, config.Version+" "+config.Arch+" "+config.MTime, "1.2.3~rc.1 arm64 "+mtime)
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

// readTar returns an archive's headers and contents by name.
func readTar(t *testing.T, r io.Reader) (headers map[string]*tar.Header, texts map[string][]byte) {
	t.Helper()
	headers, texts = make(map[string]*tar.Header), make(map[string][]byte)
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return headers, texts
		}
		testkit.Must(t, err)
		if parent := path.Dir(strings.TrimSuffix(h.Name, "/")); parent != "." && headers[parent+"/"] == nil {
			t.Errorf("%s is before its folder", h.Name)
		}
		texts[h.Name] = testkit.Value(io.ReadAll(archive))(t)
		testkit.Equal(t, headers[h.Name], nil, h.Name, "of before")
		headers[h.Name] = h
	}
}

func testImage(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	files := imageFiles([]byte("the program"), []byte("{}"), []byte("the license"))
	testkit.Must(t, writeImage(&b, "arm64", testRelease(), files))
	return b.Bytes()
}

func TestArtifactsAreReproducible(t *testing.T) {
	list := func() []byte { return testkit.Value(sbom(buildInfo(), testRelease(), "tare-1-linux-arm64", "00"))(t) }
	testkit.Equal(t, bytes.Equal(list(), list()), true, "two lists of the same modules are equal")
	testkit.Equal(t, bytes.Equal(testImage(t), testImage(t)), true, "two images of the same files are equal")
}

// Every descriptor of the layout names a blob with its digest and size, and no blob is superfluous.
// The image specification, image-layout.md and config.md.
func TestImageLayoutIsValid(t *testing.T) {
	_, layout := readTar(t, bytes.NewReader(testImage(t)))
	used := make(map[string]bool)
	type descriptor struct {
		MediaType, Digest string
		Size              int
		Platform          struct{ Architecture, OS string }
	}
	blob := func(d descriptor, mediaType string) []byte {
		t.Helper()
		name := "blobs/" + strings.Replace(d.Digest, ":", "/", 1)
		b, ok := layout[name]
		if used[name] = true; !ok || d.MediaType != mediaType || d.Size != len(b) || d.Digest != "sha256:"+hexSum(b) {
			t.Fatalf("%+v: found %v, %d bytes, want type %s", d, ok, len(b), mediaType)
		}
		return b
	}
	testkit.Equal(t, string(layout["oci-layout"]), `{"imageLayoutVersion":"1.0.0"}`, "oci-layout")
	var index struct{ Manifests []descriptor }
	testkit.Must(t, json.Unmarshal(layout["index.json"], &index))
	testkit.Equal(t, len(index.Manifests), 1, "manifests")
	testkit.Equal(t, index.Manifests[0].Platform.OS+" "+index.Manifests[0].Platform.Architecture, "linux arm64")
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	testkit.Must(t, json.Unmarshal(blob(index.Manifests[0], typeManifest), &manifest))
	var config struct {
		Architecture string
		Config       process
		RootFS       struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	testkit.Must(t, json.Unmarshal(blob(manifest.Config, typeConfig), &config))
	testkit.Equal(t, len(manifest.Layers), 1, "layers")
	testkit.Equal(t, config.Architecture, "arm64")
	packed := testkit.Value(gzip.NewReader(bytes.NewReader(blob(manifest.Layers[0], typeLayer))))(t)
	layer := testkit.Value(io.ReadAll(packed))(t)
	testkit.Equal(t, config.RootFS.DiffIDs, []string{digest(layer)}, "the layer")
	for name := range layout {
		if strings.HasPrefix(name, "blobs/sha256/") && name != "blobs/sha256/" && !used[name] {
			t.Errorf("nothing refers to %s", name)
		}
	}
	checkLayer(t, layer, config.Config)
}

// process is how a container's process is started.
type process struct {
	User            string
	Entrypoint, Cmd []string
}

// checkLayer checks what a container's process needs: its program, and a folder that it can write.
func checkLayer(t *testing.T, layer []byte, process process) {
	headers, texts := readTar(t, bytes.NewReader(layer))
	program := strings.TrimPrefix(process.Entrypoint[0], "/")
	if h := headers[program]; h == nil || h.FileInfo().Mode() != 0o755 || string(texts[program]) != "the program" {
		t.Errorf("%s: %+v", program, headers[program])
	}
	if folder := process.Cmd[len(process.Cmd)-1]; headers[strings.TrimPrefix(folder, "/")+"/"] == nil {
		t.Errorf("the folder that is served, %s, is missing", folder)
	}
	testkit.Equal(t, headers["tmp/"].FileInfo().Mode(), fs.ModeDir|fs.ModeSticky|0o777, "the mode of /tmp")
	for name, h := range headers {
		if !h.ModTime.Equal(testRelease().time) || h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
			t.Errorf("%s: %+v", name, h)
		}
	}
	user, _, _ := strings.Cut(process.User, ":")
	testkit.Contains(t, string(texts["etc/passwd"]), ":x:"+user+":")
}

// The provenance names the commit and each file with its hash.
func TestProvenanceNamesCommitAndFiles(t *testing.T) {
	a := artifacts{release: testRelease(), source: programs.Root(t), folder: t.TempDir()}
	testkit.WriteFile(t, filepath.Join(a.folder, "foreign"), "a")
	testkit.Must(t, a.provenance(t.Context()))
	text := testkit.Value(os.ReadFile(filepath.Join(a.folder, provenanceFile)))(t)
	var got struct {
		Subject []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct {
				ExternalParameters   map[string]string
				ResolvedDependencies []struct{ Digest map[string]string }
			}
		}
	}
	testkit.Must(t, json.Unmarshal(text, &got))
	commit := testkit.Value(git(t.Context(), a.source, "rev-parse", "HEAD"))(t)
	const sum = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
	build := got.Predicate.BuildDefinition
	if len(got.Subject) != 1 || got.Subject[0].Name != "foreign" || got.Subject[0].Digest["sha256"] != sum ||
		build.ExternalParameters["version"] != a.release.version ||
		len(build.ResolvedDependencies) != 1 || build.ResolvedDependencies[0].Digest["gitCommit"] != commit {
		t.Errorf("%s", text)
	}
}

// A list names the program with its hash, the standard library and all modules, by package URLs
// that vulnerability scanners know. A replaced module is the replacement.
func TestModuleListNamesEverything(t *testing.T) {
	text := testkit.Value(sbom(buildInfo(), testRelease(), "tare-1-linux-arm64", "00ff"))(t)
	var doc struct {
		Packages []struct {
			SPDXID       string
			Checksums    []struct{ ChecksumValue string }
			ExternalRefs []struct{ ReferenceLocator string }
		}
		Relationships []struct{ RelatedSPDXElement string }
	}
	testkit.Must(t, json.Unmarshal(text, &doc))
	var locators []string
	ids := make(map[string]bool)
	for _, p := range doc.Packages {
		locators = append(locators, p.ExternalRefs[0].ReferenceLocator)
		if ids[p.SPDXID] {
			t.Errorf("%s is there twice", p.SPDXID)
		}
		ids[p.SPDXID] = true
	}
	want := "pkg:golang/github.com/tarehq/tare@v1.2.3-rc.1 pkg:golang/stdlib@1.26.1 " +
		"pkg:golang/example.org/a@v1.0.0 pkg:golang/example.org/fork@v2.0.1%2Bincompatible"
	testkit.Equal(t, strings.Join(locators, " "), want)
	testkit.Equal(t, doc.Packages[0].Checksums, []struct{ ChecksumValue string }{{"00ff"}})
	testkit.Equal(t, len(doc.Relationships), len(doc.Packages), "relationships")
	for _, r := range doc.Relationships {
		if !ids[r.RelatedSPDXElement] {
			t.Errorf("%+v refers to nothing", r)
		}
	}
}

// The list of a real binary, this test, has the modules that the binary names.
func TestModuleListAgreesWithTheBinary(t *testing.T) {
	program := testkit.Value(os.Executable())(t)
	info := testkit.Value(buildinfo.ReadFile(program))(t)
	text := testkit.Value(sbom(info, testRelease(), "test", "00"))(t)
	testkit.Matches(t, string(text), `"github.com/spf13/cobra",\s+"sourceInfo": "hash in go.sum: h1:`)
}
