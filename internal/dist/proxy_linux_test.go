package main

import (
	"archive/zip"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

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
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
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
