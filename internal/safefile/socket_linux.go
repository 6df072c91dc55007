package safefile

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ChmodSocket changes the permissions of a unix socket, but never of a file that another user has
// put in its place.
func ChmodSocket(path string, mode fs.FileMode) error {
	if os.Geteuid() != 0 {
		return os.Chmod(path, mode)
	}
	err := chmodSocket(path, mode)
	if err != nil {
		return &fs.PathError{Op: "chmod", Path: path, Err: err}
	}
	return nil
}

func chmodSocket(path string, mode fs.FileMode) error {
	w, err := walk(path)
	if err != nil {
		return err
	}
	defer w.close()
	fd, err := retry(func() (int, error) {
		return unix.Openat(w.dir.fd, w.names[0], unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return err
	}
	if s.Mode&unix.S_IFMT != unix.S_IFSOCK || s.Uid != 0 || s.Nlink != 1 {
		return fmt.Errorf("another user has replaced the socket")
	}
	return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), mode)
}
