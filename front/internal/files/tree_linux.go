package files

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// openFlags: opening a pipe or device does not block, and no terminal becomes the controlling one.
const openFlags = os.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC

// openAny opens a file of any type. plain reports that the path has no symbolic link, even if
// opening fails. openat2 fails for links and on kernels before 5.6; then os.Root walks the path.
func (t *tree) openAny(name string) (f *os.File, plain bool, err error) {
	fd, err := t.openat2(name, openFlags)
	if err == nil {
		return os.NewFile(uintptr(fd), name), true, nil
	}
	if !mayWalk(err) {
		return nil, true, &os.PathError{Op: "openat2", Path: name, Err: err}
	}
	f, err = t.root.OpenFile(name, openFlags, 0)
	return f, false, err
}

// openat2 opens a path without symbolic links.
func (t *tree) openat2(name string, flags int) (fd int, err error) {
	how := unix.OpenHow{
		Flags:   uint64(flags),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	rerr := t.raw.Control(func(top uintptr) {
		for {
			if fd, err = unix.Openat2(int(top), name, &how); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	if rerr != nil {
		return -1, os.ErrClosed
	}
	return fd, err
}

// mayWalk reports whether os.Root may open what openat2 did not.
func mayWalk(err error) bool {
	number, ok := errors.AsType[unix.Errno](err)
	return ok && slices.Contains(
		[]unix.Errno{unix.ELOOP, unix.ENOSYS, unix.EPERM, unix.EAGAIN, unix.EXDEV, unix.EINVAL}, number)
}
