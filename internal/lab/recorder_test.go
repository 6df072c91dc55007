package lab_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/testkit"
)

// A folder that cannot be written, or that holds results, is an error before the run. A run that
// measured nothing leaves no files, and removes none of others.
func TestResultsFolderIsCheckedFirst(t *testing.T) {
	dir := t.TempDir()
	file, used, mixed := filepath.Join(dir, "file"), filepath.Join(dir, "used"), filepath.Join(dir, "mixed")
	for _, name := range []string{file, filepath.Join(used, sample.JournalFile), filepath.Join(mixed, "other")} {
		testkit.Must(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, nil, 0o600)))
	}
	open := func(root, out string) (*lab.Recorder, error) {
		r := &lab.Recorder{Run: &sample.Run{Started: time.Unix(1_000_000_000, 0)}}
		return r, r.Open(&lab.Options{Root: root, Out: out})
	}
	for _, bad := range []struct{ root, out string }{
		{dir, file}, {file, ""}, {dir, filepath.Join(file, "x")}, {dir, used},
	} {
		_, err := open(bad.root, bad.out)
		if e, ok := errors.AsType[*lab.UsageError](err); !ok || e.Option != lab.OptionOut {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	for _, out := range []string{"", filepath.Join(dir, "new"), mixed} {
		r := testkit.Value(open(dir, out))(t)
		r.Discard()
	}
	var left []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if !d.IsDir() {
			left = append(left, path)
		}
		return err
	})
	entries, _ := os.ReadDir(dir)
	if err != nil || len(left) != 3 || len(entries) != 3 {
		t.Errorf("left %q in %v, %v", left, entries, err)
	}
}

// A symbolic link in place of the folder "results" stays, with or without results behind it.
func TestDiscardKeepsALinkToResults(t *testing.T) {
	root, elsewhere := t.TempDir(), t.TempDir()
	link := filepath.Join(root, "results")
	testkit.Must(t, os.Symlink(elsewhere, link))
	r := &lab.Recorder{Run: &sample.Run{Started: time.Unix(1_000_000_000, 0)}}
	testkit.Must(t, r.Open(&lab.Options{Root: root}))
	r.Discard()
	left, err := os.ReadDir(elsewhere)
	if to, linkErr := os.Readlink(link); err != nil || linkErr != nil || to != elsewhere || len(left) > 0 {
		t.Errorf("the link leads to %q, %v; left %v, %v", to, linkErr, left, err)
	}
}

// A folder with a file that the run would replace is an error, also if the file is a link.
func TestResultsReplaceNoFile(t *testing.T) {
	dir := t.TempDir()
	o := lab.Options{Out: dir, Reports: []string{"report.md"}}
	for _, name := range []string{sample.RunFile, sample.ConfigsDir, "report.md"} {
		testkit.Value(o.NewFolder(time.Now()))(t)
		file := filepath.Join(dir, name)
		testkit.Must(t, os.Symlink("nowhere", file))
		_, err := o.NewFolder(time.Now())
		if e, ok := errors.AsType[*lab.UsageError](err); !ok || e.Option != lab.OptionOut {
			t.Errorf("%s: got %v", name, err)
		}
		testkit.Must(t, os.Remove(file))
	}
}
