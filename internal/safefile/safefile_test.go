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
	"github.com/tarehq/tare/internal/testkit"
)

const someUser = 64123 // is not assigned

// folders returns a directory of root's with a file, one that a user owns, and one that others may
// write to.
func folders(t *testing.T) (roots, users, shared string) {
	t.Helper()
	top := t.TempDir()
	roots, users, shared = filepath.Join(top, "root"), filepath.Join(top, "user"), filepath.Join(top, "shared")
	for _, dir := range []string{roots, users, shared} {
		testkit.Must(t, os.Mkdir(dir, 0o755))
	}
	testkit.Must(t, os.WriteFile(filepath.Join(roots, "file"), []byte("root's"), 0o600))
	testkit.Must(t, os.Chown(users, someUser, someUser))
	testkit.Must(t, os.Chmod(shared, 0o777|fs.ModeSticky))
	return roots, users, shared
}

const appending = os.O_WRONLY | os.O_APPEND | os.O_CREATE

func wantOpened(t *testing.T, path string, want safefile.File) {
	t.Helper()
	f, how, err := safefile.OpenFile(path, appending, 0o640)
	testkit.Must(t, err)
	f.Close()
	testkit.Equal(t, how, want, path)
}

func wantRejected(t *testing.T, path string) {
	t.Helper()
	if f, _, err := safefile.OpenFile(path, appending, 0o640); err == nil {
		f.Close()
		t.Errorf("%s is opened", path)
	}
}

// No link that other users may have created is followed, whether it is the last name or a
// directory, and whichever user owns it.
func TestLinksOfOtherUsersAreNotFollowed(t *testing.T) {
	testkit.NeedRoot(t)
	roots, users, shared := folders(t)
	for _, dir := range []string{users, shared} {
		for name, target := range map[string]string{"file": roots + "/file", "dangling": roots + "/new", "dir": roots,
			"relative": "../root/new2", "twice": "dangling", "self": "self"} {
			testkit.Must(t, os.Symlink(target, filepath.Join(dir, name)))
			testkit.Must(t, os.Lchown(filepath.Join(dir, name), someUser, someUser))
		}
		testkit.Must(t, os.Symlink(roots+"/rootslink", filepath.Join(dir, "made-by-root")))
		for _, name := range []string{"file", "dangling", "dir/file", "dir/new", "relative", "twice", "self",
			"made-by-root", "dir/../new", "dir/sub/new"} {
			path := dir + "/" + name
			wantRejected(t, path)
			testkit.Error(t, safefile.GiveDir(path+"/new", 0o700, someUser), "", path)
		}
		testkit.Error(t, safefile.Remove(dir+"/dir/file"), "", "a file behind a link")
		testkit.Must(t, safefile.Remove(dir+"/file")) // the link
	}
	entries := testkit.Value(os.ReadDir(roots))(t)
	testkit.Equal(t, len(entries), 1, "files of root")
	info := testkit.Value(os.Stat(roots + "/file"))(t)
	testkit.Equal(t, info.Sys().(*syscall.Stat_t).Uid, 0, "owner of root's file")
	testkit.Equal(t, info.Size(), 6, "size of root's file")
}

func TestHardLinksOfOtherUsersAreRejected(t *testing.T) {
	testkit.NeedRoot(t)
	roots, users, _ := folders(t)
	testkit.Must(t, os.Link(roots+"/file", users+"/file"))
	wantRejected(t, users+"/file")
	testkit.Must(t, os.Link(roots+"/file", roots+"/second"))
	wantOpened(t, roots+"/second", safefile.File{Trusted: true})
}

func TestLinksOfRootAreFollowed(t *testing.T) {
	testkit.NeedRoot(t)
	roots, users, _ := folders(t)
	testkit.Must(t, os.Symlink("file", roots+"/relative"))
	testkit.Must(t, os.Symlink(users, roots+"/dir"))
	testkit.Must(t, os.Symlink(users+"/target", roots+"/far"))
	testkit.Must(t, os.Symlink("/dev/null", roots+"/null"))
	for name, want := range map[string]safefile.File{
		"relative": {Linked: true, Trusted: true}, "dir/new": {Created: true, Linked: true},
		"far":  {Created: true, Linked: true},
		"null": {Linked: true, Trusted: true}, "./../root//file": {Trusted: true},
		"fresh": {Created: true, Trusted: true},
	} {
		wantOpened(t, roots+"/"+name, want)
	}
	testkit.Must(t, os.Symlink("second", roots+"/first"))
	testkit.Must(t, os.Symlink("first", roots+"/second"))
	wantRejected(t, roots+"/first") // a circle of links
	if _, _, err := safefile.OpenFile(roots+"/none/x", appending, 0o640); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// GiveDir creates a directory for the user, or gives an existing one to the user. Its parents must
// exist.
func TestGiveDirMakesUserTheOwner(t *testing.T) {
	testkit.NeedRoot(t)
	roots, users, _ := folders(t)
	testkit.Must(t, os.Mkdir(roots+"/old", 0o150))
	testkit.Must(t, os.Symlink(roots+"/old", users+"/link"))
	for _, path := range []string{roots + "/new", roots + "/old", users + "/c"} {
		testkit.Must(t, safefile.GiveDir(path, 0o700, someUser))
		info := testkit.Value(os.Stat(path))(t)
		if owner := info.Sys().(*syscall.Stat_t).Uid; owner != someUser || info.Mode().Perm()&0o700 != 0o700 {
			t.Errorf("%s: %v of %d", path, info.Mode(), owner)
		}
	}
	for _, path := range []string{roots + "/a/b", users + "/link", users + "/link/x", roots + "/file"} {
		testkit.Error(t, safefile.GiveDir(path, 0o700, someUser), "", path)
	}
}

// The permissions of a socket are changed, but not those of a file put in its place.
func TestChmodSocketChangesOnlySockets(t *testing.T) {
	testkit.NeedRoot(t)
	roots, users, _ := folders(t)
	l := testkit.Value(net.Listen("unix", users+"/socket"))(t)
	defer l.Close()
	testkit.Must(t, safefile.ChmodSocket(users+"/socket", 0o666))
	testkit.Equal(t, testkit.Value(os.Stat(users+"/socket"))(t).Mode().Perm(), 0o666)
	testkit.Must(t, os.Symlink(roots+"/file", users+"/link"))
	testkit.Must(t, os.Link(roots+"/file", users+"/hard"))
	for _, name := range []string{"link", "hard"} {
		if err := safefile.ChmodSocket(users+"/"+name, 0o666); err == nil && name == "link" {
			t.Errorf("%s: changed", name)
		}
	}
	testkit.Equal(t, testkit.Value(os.Stat(roots+"/file"))(t).Mode().Perm(), 0o600)
}

// A directory of root's in another user's directory is not trusted: that user can replace it by
// another one of root's with another link. Neither is one that a group may write to, because that
// may be an access control list.
func TestRootDirectoriesInForeignOnesAreNotTrusted(t *testing.T) {
	testkit.NeedRoot(t)
	roots, users, shared := folders(t)
	testkit.Must(t, os.Symlink(users, roots+"/way"))
	for _, dir := range []string{users + "/dir", users + "/dir/deep", roots + "/group"} {
		testkit.Must(t, os.Mkdir(dir, 0o755))
		testkit.Must(t, os.Symlink(roots+"/file", dir+"/link"))
	}
	testkit.Must(t, os.Chmod(roots+"/group", 0o775))
	for _, path := range []string{users + "/dir/link", users + "/dir/deep/link", roots + "/way/dir/link", users +
		"/../root/group/link", roots + "/group/link"} {
		wantRejected(t, path)
	}
	testkit.Must(t, os.Mkdir(shared+"/dir", 0o755)) // no other user can rename that
	testkit.Must(t, os.Symlink(roots+"/file", shared+"/dir/link"))
	wantOpened(t, shared+"/dir/link", safefile.File{Linked: true, Trusted: true})
}

// In an open directory links are followed and hard links opened, as by path.
func TestOpenInFollowsLinksLikePaths(t *testing.T) {
	testkit.NeedRoot(t)
	roots, users, shared := folders(t)
	for _, dir := range []string{users, shared} {
		testkit.Must(t, os.Symlink(roots+"/new", dir+"/link"))
		testkit.Must(t, os.Link(roots+"/file", dir+"/hard"))
		testkit.Must(t, syscall.Mkfifo(dir+"/fifo", 0o600))
		in := testkit.Value(os.Open(dir))(t)
		defer in.Close()
		for _, name := range []string{"link", "hard", "fifo"} {
			if f, err := safefile.OpenIn(in, name, appending, 0o640); err == nil {
				f.Close()
				t.Errorf("%s/%s is opened", dir, name)
			}
		}
		f := testkit.Value(safefile.OpenIn(in, "fresh", appending, 0o640))(t)
		f.Close()
	}
	testkit.Must(t, os.Remove(users+"/hard"))
	testkit.Must(t, os.Remove(shared+"/hard"))
	testkit.Must(t, os.Symlink("new", roots+"/link"))
	in := testkit.Value(os.Open(roots))(t)
	defer in.Close()
	f := testkit.Value(safefile.OpenIn(in, "link", appending, 0o640))(t)
	f.Close()
	testkit.Value(os.Stat(roots + "/new"))(t)
}
