package anchor_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarehq/tare/internal/anchor"
	"github.com/tarehq/tare/internal/testkit"
)

func write(t *testing.T, name, text string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(name, []byte(text), 0o600))
}

func wantText(t *testing.T, f *anchor.File, want string) {
	t.Helper()
	if b, err := f.Read(100); err != nil || string(b) != want {
		t.Errorf("got %q, %v, want %q", b, err, want)
	}
}

// A file is found in its directory, whatever becomes of the directory's path and of the file.
func TestFileIsFoundInItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	testkit.Must(t, os.Mkdir(dir, 0o700))
	name := filepath.Join(dir, "file")
	f := testkit.Value(anchor.New(name))(t)
	defer f.Close()
	testkit.Equal(t, f.String(), name)
	testkit.Equal(t, len(f.Dirs()), 1, "directories")
	testkit.FailsWith(f.Read(100))(t, fs.ErrNotExist)
	created := testkit.Value(f.Open(os.O_WRONLY|os.O_CREATE, 0o600))(t)
	created.Close()
	write(t, name, "first")
	wantText(t, f, "first")
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Skip(err) // open directories cannot be renamed here, so paths do not change
	}
	wantText(t, f, "first")
	write(t, filepath.Join(dir+".moved", "other"), "second")
	testkit.Must(t, os.Rename(filepath.Join(dir+".moved", "other"), filepath.Join(dir+".moved", "file")))
	wantText(t, f, "second")
	testkit.Fails(f.Read(5))(t, "more than 5 bytes")
	f.Close()
	testkit.Fails(f.Read(100))(t, "", "a read after its directory was closed")
	f.Close()
}

// The directory to which a link leads is kept open, too: certificates are renewed there.
func TestTargetDirectoryOfLinkIsKept(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"live", "archive"} {
		testkit.Must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	write(t, filepath.Join(dir, "archive/1"), "first")
	write(t, filepath.Join(dir, "archive/2"), "second")
	link := filepath.Join(dir, "live/file")
	if err := os.Symlink("../archive/1", link); err != nil {
		t.Skip(err)
	}
	f := testkit.Value(anchor.New(link))(t)
	defer f.Close()
	if d := f.Dirs(); len(d) != 2 || filepath.Base(d[0].Name()) != "live" || filepath.Base(d[1].Name()) != "archive" {
		t.Errorf("%v", f.Dirs())
	}
	wantText(t, f, "first")
	testkit.Must(t, os.Remove(link))
	testkit.Must(t, os.Symlink("../archive/2", link))
	wantText(t, f, "second")
}

func TestNewFailsWithoutDirectory(t *testing.T) {
	testkit.FailsWith(anchor.New(filepath.Join(t.TempDir(), "none", "file")))(t, fs.ErrNotExist)
}
