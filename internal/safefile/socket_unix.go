//go:build unix && !linux

package safefile

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ChmodSocket changes the permissions of a unix socket. It does not follow links that other users
// may have created, nor a link in place of the socket.
func ChmodSocket(path string, mode fs.FileMode) error {
	if os.Geteuid() != 0 {
		return os.Chmod(path, mode)
	}
	w, err := walk(path)
	if err == nil {
		defer w.close()
		err = unix.Fchmodat(w.dir.fd, w.names[0], uint32(mode.Perm()), unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		return &fs.PathError{Op: "chmod", Path: path, Err: err}
	}
	return nil
}
