//go:build unix

package acme

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile locks an open file for this descriptor.
func lockFile(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return errLocked
		case err != nil:
			return &os.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
		return nil
	}
}

func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// checkWritable returns an error unless the process may create files in a directory. It writes
// nothing, so a full disk is no error.
func checkWritable(path string) error {
	const flags = unix.W_OK | unix.X_OK | unix.R_OK
	if err := unix.Faccessat(unix.AT_FDCWD, path, flags, unix.AT_EACCESS); err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}
