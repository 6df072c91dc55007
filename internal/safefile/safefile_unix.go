//go:build unix

package safefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links a path may lead through, as in Linux.
const maxLinks = 40

const folderFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// folder is one that is open.
type folder struct {
	fd      int
	held    bool // only root can replace it, and what root has in it
	trusted bool // besides, only root may write in it
}

func openFolder(at int, name string) (folder, error) {
	fd, err := retry(func() (int, error) { return unix.Openat(at, name, folderFlags, 0) })
	if err != nil {
		return folder{}, err
	}
	f, err := folderOf(fd)
	if err != nil {
		_ = unix.Close(fd)
	}
	return f, err
}

// folderOf looks at a folder that is open.
func folderOf(fd int) (folder, error) {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return folder{}, err
	}
	const others = 0o022 // of a group there may be other users, and its bit also stands for those of an access control list
	private := s.Uid == 0 && s.Mode&others == 0
	return folder{fd, private || s.Uid == 0 && s.Mode&unix.S_ISVTX != 0, private}, nil
}

// retry calls f until it is not interrupted.
func retry(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// walker goes along a path.
type walker struct {
	here  folder
	at    string   // its path
	rest  []string // names that are still to go
	links int
}

// walk goes to the folder of a path, and returns with one name left. make is called for a folder that does not exist, if it is
// not nil.
func walk(path string, make func(dir folder, name string) error) (*walker, error) {
	if !filepath.IsAbs(path) {
		here, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		path = here + "/" + path // "x/.." is left: it may be another folder than this one
	}
	w, err := &walker{}, error(nil)
	if w.here, err = openFolder(unix.AT_FDCWD, "/"); err != nil {
		return nil, err
	}
	w.at, w.rest = "/", names(path)
	for len(w.rest) > 1 {
		if err := w.step(make); err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

func names(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}

func (w *walker) close() { _ = unix.Close(w.here.fd) }

// step goes to the next folder.
func (w *walker) step(make func(dir folder, name string) error) error {
	name := w.rest[0]
	next, err := openFolder(w.here.fd, name)
	if errors.Is(err, unix.ENOENT) && make != nil {
		if err = make(w.here, name); err == nil {
			next, err = openFolder(w.here.fd, name)
		}
	}
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EMLINK) { // what systems say of a link
		if linked, linkErr := w.follow(); linked || linkErr != nil {
			return linkErr
		}
	}
	if err != nil {
		return err
	}
	w.enter(next, name)
	return nil
}

func (w *walker) enter(next folder, name string) {
	w.close()
	next.held, next.trusted = next.held && w.here.held, next.trusted && w.here.held
	w.here, w.at, w.rest = next, filepath.Join(w.at, name), w.rest[1:]
}

// follow replaces the next name by what it leads to, if it is a symbolic link that may be followed.
func (w *walker) follow() (linked bool, err error) {
	var s unix.Stat_t
	if err := unix.Fstatat(w.here.fd, w.rest[0], &s, unix.AT_SYMLINK_NOFOLLOW); err != nil || s.Mode&unix.S_IFMT != unix.S_IFLNK {
		return false, nil
	}
	if !w.here.trusted {
		return true, errLink
	}
	if w.links++; w.links > maxLinks {
		return true, errLoop
	}
	target := make([]byte, unix.PathMax)
	n, err := retry(func() (int, error) { return unix.Readlinkat(w.here.fd, w.rest[0], target) })
	if err != nil {
		return true, err
	}
	to := string(target[:n])
	w.rest = append(names(to), w.rest[1:]...)
	if strings.HasPrefix(to, "/") {
		root, err := openFolder(unix.AT_FDCWD, "/")
		if err != nil {
			return true, err
		}
		w.close()
		w.here, w.at = root, "/"
	}
	if len(w.rest) == 0 {
		w.rest = []string{"."}
	}
	return true, nil
}

// OpenFile opens a file as os.OpenFile does. Devices and pipes are not waited for.
func OpenFile(path string, flag int, perm fs.FileMode) (*os.File, File, error) {
	if os.Geteuid() != 0 {
		_, statErr := os.Stat(path)
		f, err := os.OpenFile(path, flag, perm)
		return f, File{Created: errors.Is(statErr, fs.ErrNotExist)}, err
	}
	w, err := walk(path, nil)
	if err != nil {
		return nil, File{}, openError(path, err)
	}
	defer func() { w.close() }()
	for {
		f, how, err := w.open(flag, perm)
		if err == nil {
			return f, how, nil
		}
		if !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.EMLINK) {
			return nil, how, openError(path, err)
		}
		if linked, linkErr := w.follow(); !linked || linkErr != nil {
			return nil, how, openError(path, errors.Join(linkErr, map[bool]error{false: err}[linked]))
		}
		for len(w.rest) > 1 {
			if err := w.step(nil); err != nil {
				return nil, how, openError(path, err)
			}
		}
	}
}

// OpenIn opens a file in a folder that is open, as os.OpenFile does. If the process is root it follows a link only in a folder of root's in which
// nobody else may write. The folder's path does not matter any more. Devices and pipes are not waited for.
func OpenIn(dir *os.File, name string, flag int, perm fs.FileMode) (*os.File, error) {
	path := filepath.Join(dir.Name(), name)
	here, err := folderOf(int(dir.Fd()))
	if err != nil {
		return nil, openError(path, err)
	}
	if os.Geteuid() != 0 || here.trusted {
		fd, err := retry(func() (int, error) {
			return unix.Openat(here.fd, name, flag|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, uint32(perm.Perm()))
		})
		if err != nil {
			return nil, openError(path, err)
		}
		return os.NewFile(uintptr(fd), path), nil
	}
	w := &walker{here: here, at: dir.Name(), rest: []string{name}}
	f, _, err := w.open(flag, perm)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EMLINK) {
		err = errLink
	}
	if err != nil {
		return nil, openError(path, err)
	}
	return f, nil
}

// open opens the last name, which is no link. A new file is made only if nothing has that name.
func (w *walker) open(flag int, perm fs.FileMode) (*os.File, File, error) {
	how := File{Linked: w.links > 0, Trusted: w.here.trusted}
	if strings.HasPrefix(w.at+"/", "/proc/") { // such as /dev/stderr leads to: these links are the kernel's
		f, err := os.OpenFile(filepath.Join(w.at, w.rest[0]), flag&^os.O_CREATE, 0)
		return f, how, err
	}
	flags := flag&^(os.O_CREATE|os.O_EXCL|os.O_TRUNC) | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	open := func(more int) (int, error) {
		return retry(func() (int, error) { return unix.Openat(w.here.fd, w.rest[0], flags|more, uint32(perm.Perm())) })
	}
	fd, err := open(0)
	if errors.Is(err, unix.ENOENT) && flag&os.O_CREATE != 0 {
		how.Created = true
		fd, err = open(unix.O_CREAT | unix.O_EXCL)
	}
	if err != nil {
		return nil, how, err
	}
	f := os.NewFile(uintptr(fd), filepath.Join(w.at, w.rest[0]))
	var s unix.Stat_t
	err = unix.Fstat(fd, &s)
	if err == nil && !how.Trusted && s.Nlink > 1 {
		err = errLinked
	}
	if err == nil && flag&os.O_TRUNC != 0 && s.Mode&unix.S_IFMT == unix.S_IFREG {
		err = f.Truncate(0)
	}
	if err != nil {
		_ = f.Close()
		return nil, how, err
	}
	return f, how, nil
}

// GiveDir makes a directory for a user, unless it exists, and gives it to the user with all rights of an owner, as nginx does for those
// of caches. Its parent must exist.
func GiveDir(path string, perm fs.FileMode, uid int) error {
	if os.Geteuid() != 0 {
		if err := os.Mkdir(path, perm); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	}
	if err := giveDir(path, perm, uid); err != nil {
		return &fs.PathError{Op: "mkdir", Path: path, Err: err}
	}
	return nil
}

func giveDir(path string, perm fs.FileMode, uid int) error {
	w, err := walk(path, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w (create %s first, such that the user who serves may enter it)", err, filepath.Dir(path))
	}
	if err != nil {
		return err
	}
	defer func() { w.close() }()
	for len(w.rest) > 0 {
		if err := w.step(func(dir folder, name string) error { return unix.Mkdirat(dir.fd, name, uint32(perm.Perm())) }); err != nil {
			return err
		}
	}
	var s unix.Stat_t
	if err := unix.Fstat(w.here.fd, &s); err != nil {
		return err
	}
	if int(s.Uid) != uid {
		if err := unix.Fchown(w.here.fd, uid, -1); err != nil {
			return err
		}
	}
	const all = 0o700
	if s.Mode&all != all {
		return unix.Fchmod(w.here.fd, uint32(s.Mode&0o7777|all))
	}
	return nil
}

// Remove removes a file or a link. It follows no link on the way that others may have made.
func Remove(path string) error {
	if os.Geteuid() != 0 {
		return os.Remove(path)
	}
	w, err := walk(path, nil)
	if err != nil {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	defer w.close()
	if err := unix.Unlinkat(w.here.fd, w.rest[0], 0); err != nil {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}
