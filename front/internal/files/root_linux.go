package files

import (
	"cmp"
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// openFlags: opening a pipe or device does not block, and no terminal becomes the controlling one.
const openFlags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC

// open uses openat2, which fails for links and on kernels before 5.6. Then os.Root walks the path,
// unless links must not be followed.
func (t *rootTree) open(name string) (f *os.File, err error) {
	name = cmp.Or(name, ".")
	fd, err := t.openat2(name, openFlags)
	switch {
	case err == nil:
		return os.NewFile(uintptr(fd), name), nil
	case !mayWalk(err):
		return nil, &os.PathError{Op: "openat2", Path: name, Err: err}
	case t.noLinks: // also hides whether the file exists
		return nil, errLink
	}
	return t.root.OpenFile(name, openFlags, 0)
}

// openat2 opens a name below the root to which no link leads.
func (t *rootTree) openat2(name string, flags uint64) (fd int, err error) {
	t.using.RLock()
	defer t.using.RUnlock()
	if t.top == nil {
		return -1, os.ErrClosed
	}
	how := unix.OpenHow{
		Flags:   flags,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for {
		if fd, err = unix.Openat2(t.fd, name, &how); !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// mayWalk reports whether os.Root may open what openat2 did not.
func mayWalk(err error) bool {
	number, ok := errors.AsType[unix.Errno](err)
	return ok && slices.Contains(
		[]unix.Errno{unix.ELOOP, unix.ENOSYS, unix.EPERM, unix.EAGAIN, unix.EXDEV, unix.EINVAL}, number)
}

// stamp inspects each name of the path without following links, and opens nothing: a process that
// is out of descriptors still serves from memory. The calls see different moments, so the path may
// have led elsewhere in between. This is safe, because a stamp only shows that a file is the one
// that was once opened below the root and is served from memory. Behind a link os.Root walks the
// path. isPlain is false there, and for a file with several names.
func (t *rootTree) stamp(name string, isWatched bool) (s stamp, isPlain bool) {
	t.using.RLock()
	defer t.using.RUnlock()
	if t.top == nil {
		return stamp{}, false
	}
	var x unix.Statx_t
	i := 0
	if isWatched {
		i = len(name)
	}
	for ; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		if statAt(t.fd, unix.AT_SYMLINK_NOFOLLOW, &x, name[:i]) != nil {
			return stamp{}, true
		}
		if isLink := x.Mode&unix.S_IFMT == unix.S_IFLNK; isLink && t.noLinks {
			return stamp{}, false
		} else if isLink {
			return stampIf(t.stat(name)), false
		}
	}
	return statxStamp(&x), x.Mode&unix.S_IFMT == unix.S_IFDIR || x.Nlink <= 1
}
