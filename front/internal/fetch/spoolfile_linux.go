package fetch

import (
	"os"

	"golang.org/x/sys/unix"
)

// openUnnamed opens a new file without a name, if the filesystem supports that. Thousands of
// uploads then neither wait for the lock of one folder nor change it twice each.
func openUnnamed(dir string) (*os.File, error) {
	return os.OpenFile(dir, os.O_RDWR|os.O_EXCL|unix.O_TMPFILE, 0o600)
}
