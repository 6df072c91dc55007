//go:build unix

package acme

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile locks an open file for this descriptor, also against others of this process.
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

// checkPrivate returns an error if users other than root and a user may replace files in a
// directory. That user is the one of the process if uid is negative.
func checkPrivate(path string, uid int) error {
	if uid < 0 {
		uid = os.Geteuid()
	}
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	switch {
	case s.Mode&unix.S_IWOTH != 0:
		return fmt.Errorf("%s: all users may write to it and could replace keys (chmod o-w)", path)
	case int(s.Uid) != uid && s.Uid != 0:
		return fmt.Errorf("%s: user %d owns it and could replace keys (make user %d the owner of it and of its files)",
			path, s.Uid, uid)
	}
	return nil
}
