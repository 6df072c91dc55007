package testkit

import (
	"testing"

	"golang.org/x/sys/unix"
)

// SmallDisk returns a folder on a disk of its own with a size such as 64k, until the end of the
// test. It skips the test if the process may not mount a disk.
func SmallDisk(t testing.TB, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skip("no file system can be mounted: ", err)
	}
	t.Cleanup(func() { Check(t, unix.Unmount(dir, 0)) })
	return dir
}
