//go:build unix

package safefile_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/safefile"
)

const someUser = 64123 // is not assigned

// needRoot skips a test if the process is not root.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root is led astray")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// folders returns a directory of root's with a file, one that a user owns, and one that others may
// write to.
func folders(t *testing.T) (roots, users, shared string) {
	t.Helper()
	top := t.TempDir()
	roots, users, shared = filepath.Join(top, "root"), filepath.Join(top, "user"), filepath.Join(top, "shared")
	for _, dir := range []string{roots, users, shared} {
		must(t, os.Mkdir(dir, 0o755))
	}
	must(t, os.WriteFile(filepath.Join(roots, "file"), []byte("root's"), 0o600))
	must(t, os.Chown(users, someUser, someUser))
	must(t, os.Chmod(shared, 0o777|fs.ModeSticky))
	return roots, users, shared
}

const appending = os.O_WRONLY | os.O_APPEND | os.O_CREATE

// No link that other users may have created is followed, whether it is the last name or a
// directory, and whichever user owns it.
func TestLinksOfOtherUsersAreNotFollowed(t *testing.T) {
	needRoot(t)
	roots, users, shared := folders(t)
	for _, dir := range []string{users, shared} {
		for name, target := range map[string]string{"file": roots + "/file", "dangling": roots + "/new", "dir": roots,
			"relative": "../root/new2", "twice": "dangling", "self": "self"} {
			must(t, os.Symlink(target, filepath.Join(dir, name)))
			must(t, os.Lchown(filepath.Join(dir, name), someUser, someUser))
		}
		must(t, os.Symlink(roots+"/rootslink", filepath.Join(dir, "made-by-root")))
		for _, name := range []string{"file", "dangling", "dir/file", "dir/new", "relative", "twice", "self",
			"made-by-root", "dir/../new", "dir/sub/new"} {
			path := dir + "/" + name
			if f, _, err := safefile.OpenFile(path, appending, 0o640); err == nil {
				f.Close()
				t.Errorf("%s is opened", path)
			}
			if err := safefile.GiveDir(path+"/new", 0o700, someUser); err == nil {
				t.Errorf("%s/new is made", path)
			}
		}
		if err := safefile.Remove(dir + "/dir/file"); err == nil {
			t.Error("a file behind a link is removed")
		}
		must(t, safefile.Remove(dir+"/file")) // the link
	}
	entries, err := os.ReadDir(roots)
	must(t, err)
	if len(entries) != 1 {
		t.Errorf("%v", entries)
	}
	info, err := os.Stat(roots + "/file")
	must(t, err)
	if info.Sys().(*syscall.Stat_t).Uid != 0 || info.Size() != 6 {
		t.Errorf("%v", info)
	}
}

func TestHardLinksOfOtherUsersAreRejected(t *testing.T) {
	needRoot(t)
	roots, users, _ := folders(t)
	must(t, os.Link(roots+"/file", users+"/file"))
	if f, _, err := safefile.OpenFile(users+"/file", appending, 0o640); err == nil {
		f.Close()
		t.Error("it is opened")
	}
	must(t, os.Link(roots+"/file", roots+"/second"))
	f, how, err := safefile.OpenFile(roots+"/second", appending, 0o640)
	must(t, err)
	f.Close()
	if !how.Trusted || how.Created || how.Linked {
		t.Errorf("%+v", how)
	}
}

func TestLinksOfRootAreFollowed(t *testing.T) {
	needRoot(t)
	roots, users, _ := folders(t)
	must(t, os.Symlink("file", roots+"/relative"))
	must(t, os.Symlink(users, roots+"/dir"))
	must(t, os.Symlink(users+"/target", roots+"/far"))
	must(t, os.Symlink("/dev/null", roots+"/null"))
	for name, want := range map[string]safefile.File{
		"relative": {Linked: true, Trusted: true}, "dir/new": {Created: true, Linked: true},
		"far":  {Created: true, Linked: true},
		"null": {Linked: true, Trusted: true}, "./../root//file": {Trusted: true},
		"fresh": {Created: true, Trusted: true},
	} {
		f, how, err := safefile.OpenFile(roots+"/"+name, appending, 0o640)
		if err != nil || how != want {
			t.Errorf("%s: %+v, %v, want %+v", name, how, err, want)
			continue
		}
		f.Close()
	}
	must(t, os.Symlink("second", roots+"/first"))
	must(t, os.Symlink("first", roots+"/second"))
	if _, _, err := safefile.OpenFile(roots+"/first", appending, 0o640); err == nil {
		t.Error("a circle of links is opened")
	}
	if _, _, err := safefile.OpenFile(roots+"/none/x", appending, 0o640); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// GiveDir creates a directory for the user, or gives an existing one to the user. Its parents must
// exist.
func TestGiveDirMakesUserTheOwner(t *testing.T) {
	needRoot(t)
	roots, users, _ := folders(t)
	must(t, os.Mkdir(roots+"/old", 0o150))
	must(t, os.Symlink(roots+"/old", users+"/link"))
	for _, path := range []string{roots + "/new", roots + "/old", users + "/c"} {
		must(t, safefile.GiveDir(path, 0o700, someUser))
		info, err := os.Stat(path)
		must(t, err)
		if owner := info.Sys().(*syscall.Stat_t).Uid; owner != someUser || info.Mode().Perm()&0o700 != 0o700 {
			t.Errorf("%s: %v of %d", path, info.Mode(), owner)
		}
	}
	for _, path := range []string{roots + "/a/b", users + "/link", users + "/link/x", roots + "/file"} {
		if err := safefile.GiveDir(path, 0o700, someUser); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
}

// The permissions of a socket are changed, but not those of a file put in its place.
func TestChmodSocketChangesOnlySockets(t *testing.T) {
	needRoot(t)
	roots, users, _ := folders(t)
	l, err := net.Listen("unix", users+"/socket")
	must(t, err)
	defer l.Close()
	must(t, safefile.ChmodSocket(users+"/socket", 0o666))
	if info, err := os.Stat(users + "/socket"); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("%v, %v", info, err)
	}
	must(t, os.Symlink(roots+"/file", users+"/link"))
	must(t, os.Link(roots+"/file", users+"/hard"))
	for _, name := range []string{"link", "hard"} {
		if err := safefile.ChmodSocket(users+"/"+name, 0o666); err == nil && name == "link" {
			t.Errorf("%s: changed", name)
		}
	}
	if info, err := os.Stat(roots + "/file"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// A directory of root's in another user's directory is not trusted: that user can replace it by
// another one of root's with another link. Neither is one that a group may write to, because that
// may be an access control list.
func TestRootDirectoriesInForeignOnesAreNotTrusted(t *testing.T) {
	needRoot(t)
	roots, users, shared := folders(t)
	must(t, os.Symlink(users, roots+"/way"))
	for _, dir := range []string{users + "/dir", users + "/dir/deep", roots + "/group"} {
		must(t, os.Mkdir(dir, 0o755))
		must(t, os.Symlink(roots+"/file", dir+"/link"))
	}
	must(t, os.Chmod(roots+"/group", 0o775))
	for _, path := range []string{users + "/dir/link", users + "/dir/deep/link", roots + "/way/dir/link", users +
		"/../root/group/link", roots + "/group/link"} {
		if f, _, err := safefile.OpenFile(path, appending, 0o640); err == nil {
			f.Close()
			t.Errorf("%s is opened", path)
		}
	}
	must(t, os.Mkdir(shared+"/dir", 0o755)) // no other user can rename that
	must(t, os.Symlink(roots+"/file", shared+"/dir/link"))
	f, how, err := safefile.OpenFile(shared+"/dir/link", appending, 0o640)
	must(t, err)
	f.Close()
	if !how.Linked || !how.Trusted {
		t.Errorf("%+v", how)
	}
}

// In an open directory links are followed and hard links opened, as by path.
func TestOpenInFollowsLinksLikePaths(t *testing.T) {
	needRoot(t)
	roots, users, shared := folders(t)
	for _, dir := range []string{users, shared} {
		must(t, os.Symlink(roots+"/new", dir+"/link"))
		must(t, os.Link(roots+"/file", dir+"/hard"))
		must(t, syscall.Mkfifo(dir+"/fifo", 0o600))
		in, err := os.Open(dir)
		must(t, err)
		defer in.Close()
		for _, name := range []string{"link", "hard", "fifo"} {
			if f, err := safefile.OpenIn(in, name, appending, 0o640); err == nil {
				f.Close()
				t.Errorf("%s/%s is opened", dir, name)
			}
		}
		f, err := safefile.OpenIn(in, "fresh", appending, 0o640)
		must(t, err)
		f.Close()
	}
	must(t, os.Remove(users+"/hard"))
	must(t, os.Remove(shared+"/hard"))
	must(t, os.Symlink("new", roots+"/link"))
	in, err := os.Open(roots)
	must(t, err)
	defer in.Close()
	f, err := safefile.OpenIn(in, "link", appending, 0o640)
	must(t, err)
	f.Close()
	if _, err := os.Stat(roots + "/new"); err != nil {
		t.Error(err)
	}
}
