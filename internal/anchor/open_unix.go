//go:build unix

package anchor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/internal/safefile"
)

func (f *File) open(flag int, perm fs.FileMode) (*os.File, error) {
	name := filepath.Base(f.path)
	if flag&(os.O_WRONLY|os.O_RDWR|os.O_CREATE|os.O_TRUNC) != 0 {
		return safefile.OpenIn(f.dir, name, flag, perm)
	}
	for {
		fd, err := unix.Openat(int(f.dir.Fd()), name, flag|unix.O_NONBLOCK|unix.O_CLOEXEC, uint32(perm.Perm()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: f.path, Err: err}
		}
		return os.NewFile(uintptr(fd), f.path), nil
	}
}
