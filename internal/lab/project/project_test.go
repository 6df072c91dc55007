package project

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

var update = flag.Bool("update", false, "write the archive anew")

func TestMain(m *testing.M) { os.Exit(testkit.Tests{M: m}.Run()) }

// isCarried reports whether the archive has a file of contenders/: all but what only tests use.
func isCarried(name string) bool {
	return strings.HasPrefix(name, "engines/") || !strings.HasSuffix(name, "_test.go") // its benchmarks are tests
}

// The archive has the files of the folder. With -update, the test writes it.
func TestArchiveHasTheContenders(t *testing.T) {
	root := programs.Root(t)
	folder := os.DirFS(filepath.Join(root, contendersDir))
	a := txtar.Archive{Comment: []byte("The contenders. Made by: go test ./internal/lab/project -update\n\n")}
	err := fs.WalkDir(folder, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "__pycache__" || path != "." && strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || !isCarried(path) {
			return err
		}
		text, err := fs.ReadFile(folder, path)
		a.Files = append(a.Files, txtar.File{Name: path, Data: text})
		return err
	})
	testkit.Must(t, err)
	want := txtar.Format(&a)
	for i, f := range txtar.Parse(want).Files {
		if !bytes.Equal(f.Data, a.Files[i].Data) {
			t.Errorf("%s: an archive cannot hold it: it does not end in a newline, or has a line of an archive", f.Name)
		}
	}
	if *update {
		testkit.Must(t, os.WriteFile("contenders.txtar", want, 0o644))
		return
	}
	if !bytes.Equal(contenders, want) {
		t.Error("contenders.txtar differs from contenders/: go test ./internal/lab/project -update writes it")
	}
}

// All files of the experiments are embedded, except those of the lab's own tests.
func TestExperimentsAreEmbedded(t *testing.T) {
	all := testkit.Value(embedded())(t)
	var found []string
	for _, below := range []string{"*", filepath.Join("targets", "*")} {
		names := testkit.Value(filepath.Glob(filepath.Join(programs.Root(t), experimentsDir, below, "*.*")))(t)
		found = append(found, names...)
	}
	for _, name := range found {
		text := testkit.Value(os.ReadFile(name))(t)
		if !slices.ContainsFunc(all, func(f txtar.File) bool {
			return strings.HasSuffix(filepath.ToSlash(name), "/"+f.Name) && bytes.Equal(f.Data, text)
		}) {
			t.Errorf("%s is not embedded", name)
		}
	}
}

// Many calls at once have one result, and leave nothing else behind.
func TestUnpackIsSafeAtOnce(t *testing.T) {
	testkit.Long(t, "it unpacks the project")
	cache := filepath.Join(t.TempDir(), "cache")
	roots := make([]string, 8)
	var all sync.WaitGroup
	for i := range roots {
		all.Go(func() {
			var err error
			roots[i], err = Unpack(cache, Source{Version: "v1.2.3"})
			testkit.Check(t, err)
		})
	}
	all.Wait()
	found, err := os.ReadDir(cache)
	isOther := func(r string) bool { return r != roots[0] }
	if err != nil || len(found) != 1 || slices.ContainsFunc(roots, isOther) {
		t.Errorf("roots %q, in the cache %v", roots, found)
	}
	if root, ok := Find(filepath.Join(roots[0], "contenders", "nethttp")); !ok || root != roots[0] {
		t.Errorf("found %q, want %q", root, roots[0])
	}
	if other, err := Unpack(cache, Source{Version: "v1.2.4"}); err != nil || other == roots[0] {
		t.Errorf("another version: %q, %v", other, err)
	}
}

func TestUnpackReportsWhereItCannotWrite(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	_, err := Unpack(filepath.Join(dir, "file", "tare"), Source{})
	testkit.Error(t, err, "not a directory (set XDG_CACHE_HOME to another folder)")
}

// If the disk is full, the error reports it, nothing is left behind, and a later call succeeds.
func TestUnpackToFullDisk(t *testing.T) {
	disk := testkit.SmallDisk(t, "64k")
	_, err := Unpack(disk, Source{})
	testkit.Error(t, err, "no space left on device")
	if left, err := os.ReadDir(disk); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	testkit.Must(t, syscall.Mount("", disk, "", syscall.MS_REMOUNT, "size=16m"))
	testkit.Value(Unpack(disk, Source{}))(t)
}

func TestSourceIsRequiredByGoModules(t *testing.T) {
	const text = "module github.com/tarehq/tare/contenders\n\nrequire (\n\tgithub.com/tarehq/tare v0.0.0\n)\n\nreplace github.com/tarehq/tare => ../\n"
	for _, test := range []struct {
		source     Source
		has, lacks string
	}{
		{Source{Version: "v1.2.3"}, "github.com/tarehq/tare v1.2.3\n", "replace"},
		{Source{Folder: "/a b"}, `replace github.com/tarehq/tare => "/a b"`, "../"},
		{Source{}, text, "\x00"},
	} {
		got, err := test.source.apply(txtar.File{Name: "contenders/go.mod", Data: []byte(text)})
		if err != nil || !strings.Contains(string(got), test.has) || strings.Contains(string(got), test.lacks) {
			t.Errorf("%+v: %v\n%s", test.source, err, got)
		}
	}
	if _, err := (Source{Version: "v1.2.3"}).apply(txtar.File{Name: "x/y/go.mod", Data: []byte(text)}); err == nil {
		t.Error("a go.mod in another folder was accepted")
	}
}

// Tests are built from a checkout, unless paths are trimmed.
func TestSelfIsTheCheckout(t *testing.T) {
	testkit.Equal(t, Self("").Folder, programs.Root(t))
}
