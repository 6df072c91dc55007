//go:build unix

package anchor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func (f *File) open(flag int, perm fs.FileMode) (*os.File, error) {
	for {
		fd, err := unix.Openat(int(f.dir.Fd()), filepath.Base(f.path), flag|unix.O_CLOEXEC, uint32(perm.Perm()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: f.path, Err: err}
		}
		return os.NewFile(uintptr(fd), f.path), nil
	}
}
