package fetch

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// openUnnamed opens a new file without a name, if the filesystem supports that. Thousands of
// uploads then neither wait for the lock of one folder nor change it twice each. The os.File has a
// name that a file in the folder would have.
func openUnnamed(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_RDWR|unix.O_EXCL|unix.O_TMPFILE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir, spoolPrefix+strconv.Itoa(fd))), nil
}
