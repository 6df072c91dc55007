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

// maxLinks is the maximum number of symbolic links in a path, as in Linux.
const maxLinks = 40

const directoryFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// directory is an open directory.
type directory struct {
	fd        int
	protected bool // only root can replace it and root's files in it
	trusted   bool // in addition, only root may write to it
}

func openDirectory(at int, name string) (directory, error) {
	fd, err := retry(func() (int, error) { return unix.Openat(at, name, directoryFlags, 0) })
	if err != nil {
		return directory{}, err
	}
	f, err := directoryOf(fd)
	if err != nil {
		_ = unix.Close(fd)
	}
	return f, err
}

// directoryOf returns the directory of an open descriptor.
func directoryOf(fd int) (directory, error) {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return directory{}, err
	}
	// a group may have other members, and its bit also represents an access control list
	const others = 0o022
	private := s.Uid == 0 && s.Mode&others == 0
	return directory{fd, private || s.Uid == 0 && s.Mode&unix.S_ISVTX != 0, private}, nil
}

// retry calls f until it is not interrupted by a signal.
func retry(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// walker resolves a path.
type walker struct {
	dir   directory
	path  string   // path of dir
	names []string // the names that remain
	links int
}

// walk resolves a path up to its last name.
func walk(path string) (*walker, error) {
	if !filepath.IsAbs(path) {
		here, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		path = here + "/" + path // "x/.." stays, because it need not be this directory
	}
	w, err := &walker{}, error(nil)
	if w.dir, err = openDirectory(unix.AT_FDCWD, "/"); err != nil {
		return nil, err
	}
	w.path, w.names = "/", splitPath(path)
	for len(w.names) > 1 {
		if err := w.step(); err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

func splitPath(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}

func (w *walker) close() { _ = unix.Close(w.dir.fd) }

// step opens the next directory.
func (w *walker) step() error {
	name := w.names[0]
	next, err := openDirectory(w.dir.fd, name)
	// the systems' errors for a link
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EMLINK) {
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

func (w *walker) enter(next directory, name string) {
	w.close()
	next.protected, next.trusted = next.protected && w.dir.protected, next.trusted && w.dir.protected
	w.dir, w.path, w.names = next, filepath.Join(w.path, name), w.names[1:]
}

// follow replaces the next name by the target of a symbolic link, if it is one that may be
// followed.
func (w *walker) follow() (linked bool, err error) {
	var s unix.Stat_t
	if err := unix.Fstatat(w.dir.fd, w.names[0], &s, unix.AT_SYMLINK_NOFOLLOW); err != nil ||
		s.Mode&unix.S_IFMT != unix.S_IFLNK {
		return false, nil
	}
	if !w.dir.trusted {
		return true, errSymlink
	}
	if w.links++; w.links > maxLinks {
		return true, errLoop
	}
	target := make([]byte, unix.PathMax)
	n, err := retry(func() (int, error) { return unix.Readlinkat(w.dir.fd, w.names[0], target) })
	if err != nil {
		return true, err
	}
	to := string(target[:n])
	w.names = append(splitPath(to), w.names[1:]...)
	if strings.HasPrefix(to, "/") {
		root, err := openDirectory(unix.AT_FDCWD, "/")
		if err != nil {
			return true, err
		}
		w.close()
		w.dir, w.path = root, "/"
	}
	if len(w.names) == 0 {
		w.names = []string{"."}
	}
	return true, nil
}

// OpenFile opens a file as os.OpenFile does. It does not wait for devices or pipes.
func OpenFile(path string, flag int, perm fs.FileMode) (*os.File, File, error) {
	if os.Geteuid() != 0 {
		_, statErr := os.Stat(path)
		f, err := os.OpenFile(path, flag, perm)
		return f, File{Created: errors.Is(statErr, fs.ErrNotExist)}, err
	}
	w, err := walk(path)
	if err != nil {
		return nil, File{}, openError(path, err)
	}
	defer func() { w.close() }()
	for {
		f, info, err := w.open(flag, perm)
		if err == nil {
			return f, info, nil
		}
		if !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.EMLINK) {
			return nil, info, openError(path, err)
		}
		if linked, linkErr := w.follow(); !linked || linkErr != nil {
			return nil, info, openError(path, errors.Join(linkErr, map[bool]error{false: err}[linked]))
		}
		for len(w.names) > 1 {
			if err := w.step(); err != nil {
				return nil, info, openError(path, err)
			}
		}
	}
}

// OpenIn opens a file in an open directory, as os.OpenFile does. If the process is root, it follows
// a link only in a directory that root owns and nobody else may write to; the path of the directory
// no longer matters. It does not wait for devices or pipes.
func OpenIn(dir *os.File, name string, flag int, perm fs.FileMode) (*os.File, error) {
	path := filepath.Join(dir.Name(), name)
	here, err := directoryOf(int(dir.Fd()))
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
	w := &walker{dir: here, path: dir.Name(), names: []string{name}}
	f, _, err := w.open(flag, perm)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EMLINK) {
		err = errSymlink
	}
	if err != nil {
		return nil, openError(path, err)
	}
	return f, nil
}

// open opens the last name, which is not a link. It creates a file only if nothing has that name.
func (w *walker) open(flag int, perm fs.FileMode) (*os.File, File, error) {
	info := File{Linked: w.links > 0, Trusted: w.dir.trusted}
	// /dev/stderr leads here: these links are the kernel's
	if strings.HasPrefix(w.path+"/", "/proc/") {
		f, err := os.OpenFile(filepath.Join(w.path, w.names[0]), flag&^os.O_CREATE, 0)
		return f, info, err
	}
	flags := flag&^(os.O_CREATE|os.O_EXCL|os.O_TRUNC) | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY |
		unix.O_CLOEXEC
	open := func(more int) (int, error) {
		return retry(func() (int, error) { return unix.Openat(w.dir.fd, w.names[0], flags|more, uint32(perm.Perm())) })
	}
	fd, err := open(0)
	if errors.Is(err, unix.ENOENT) && flag&os.O_CREATE != 0 {
		info.Created = true
		fd, err = open(unix.O_CREAT | unix.O_EXCL)
	}
	if err != nil {
		return nil, info, err
	}
	f := os.NewFile(uintptr(fd), filepath.Join(w.path, w.names[0]))
	var s unix.Stat_t
	err = unix.Fstat(fd, &s)
	if err == nil && !info.Trusted && s.Nlink > 1 {
		err = errHardLinks
	}
	if err == nil && flag&os.O_TRUNC != 0 && s.Mode&unix.S_IFMT == unix.S_IFREG {
		err = f.Truncate(0)
	}
	if err != nil {
		_ = f.Close()
		return nil, info, err
	}
	return f, info, nil
}

// GiveDir creates a directory for a user unless it exists, and makes the user its owner. It allows
// the owner everything, as nginx does for cache directories. The parent must exist.
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
	w, err := walk(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w (create %s first, with permissions that allow the serving user to enter it)", err,
			filepath.Dir(path))
	}
	if err != nil {
		return err
	}
	defer func() { w.close() }()
	for len(w.names) > 0 {
		err := w.step()
		if errors.Is(err, unix.ENOENT) {
			err = unix.Mkdirat(w.dir.fd, w.names[0], uint32(perm.Perm())) // the next step opens it
		}
		if err != nil {
			return err
		}
	}
	var s unix.Stat_t
	if err := unix.Fstat(w.dir.fd, &s); err != nil {
		return err
	}
	if int(s.Uid) != uid {
		if err := unix.Fchown(w.dir.fd, uid, -1); err != nil {
			return err
		}
	}
	const all = 0o700
	if s.Mode&all != all {
		mode := uint32(s.Mode) //nolint:unconvert // types differ between systems
		return unix.Fchmod(w.dir.fd, mode&0o7777|all)
	}
	return nil
}

// Remove removes a file or a link. It does not follow links that other users may have created.
func Remove(path string) error {
	if os.Geteuid() != 0 {
		return os.Remove(path)
	}
	w, err := walk(path)
	if err != nil {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	defer w.close()
	if err := unix.Unlinkat(w.dir.fd, w.names[0], 0); err != nil {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

// CheckWritable returns an error unless the process may create and list files in a directory. It
// writes nothing, so a full disk is no error.
func CheckWritable(path string) error {
	const flags = unix.W_OK | unix.X_OK | unix.R_OK
	if err := unix.Faccessat(unix.AT_FDCWD, path, flags, unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}
