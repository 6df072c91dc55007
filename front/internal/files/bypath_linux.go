package files

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// statFlags open a file for inspection only: it need not be readable, and opening it has no effect
// on it.
const statFlags = unix.O_PATH | unix.O_CLOEXEC

// openPath opens a path like any program.
func openPath(path string) (*os.File, error) { return os.OpenFile(path, openFlags, 0) }

// walk opens a path name by name: it follows a link after the trusted prefix only if
// DisableSymlinks allows it. It opens directories for searching only. It opens the last name with
// the flags last, after checking whether that is a link.
func (t *pathTree) walk(trusted, rest string, last int) (*os.File, error) {
	fd, err := unix.Open(trusted+"/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: trusted, Err: err}
	}
	names := strings.FieldsFunc(rest, func(r rune) bool { return r == '/' })
	if len(names) == 0 || strings.HasSuffix(rest, "/") {
		names = append(names, ".")
	}
	for i, name := range names {
		flags := unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
		if i == len(names)-1 {
			flags = last
		}
		next, err := t.step(fd, name, flags)
		_ = unix.Close(fd)
		if err != nil {
			return nil, &os.PathError{Op: "openat", Path: trusted + rest, Err: err}
		}
		fd = next
	}
	return os.NewFile(uintptr(fd), trusted+rest), nil
}

// step opens a name in a directory. As in nginx, a forbidden link is ELOOP, which becomes 403, if
// it is the last name or has another owner. Otherwise it is not a directory, which becomes 404.
func (t *pathTree) step(dir int, name string, flags int) (fd int, err error) {
	if t.disableLinks == "on" {
		flags |= unix.O_NOFOLLOW
	}
	for {
		if fd, err = unix.Openat(dir, name, flags, 0); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	switch {
	case err != nil:
		return fd, err
	case t.disableLinks == "on" && flags&(unix.O_PATH|unix.O_DIRECTORY) == unix.O_PATH:
		return notLink(fd)
	case t.disableLinks == "on":
		return fd, nil
	}
	var itself, target unix.Stat_t
	if err = errors.Join(unix.Fstatat(dir, name, &itself, unix.AT_SYMLINK_NOFOLLOW),
		unix.Fstat(fd, &target)); err == nil && itself.Uid != target.Uid {
		err = unix.ELOOP
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// notLink returns fd unless it is a link. Flags such as statFlags open the link itself.
func notLink(fd int) (int, error) {
	var s unix.Stat_t
	err := unix.Fstat(fd, &s)
	if err == nil && s.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.ELOOP
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// stamp makes a single system call and allocates nothing, unless links are checked.
func (t *pathTree) stamp(name string, _ bool) (s stamp, isPlain bool) {
	if t.disableLinks != "" {
		return stampIf(t.stat(name)), false
	}
	var x unix.Statx_t
	if statAt(unix.AT_FDCWD, 0, &x, t.dir, "/", name) != nil {
		return stamp{}, false
	}
	return statxStamp(&x), false
}
