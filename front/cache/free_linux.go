package cache

import (
	"os"
	"syscall"
)

// freeBytes is how much a file's disk has room for.
func freeBytes(f *os.File) (free int64, ok bool) {
	var s syscall.Statfs_t
	err := syscall.Fstatfs(int(f.Fd()), &s)
	return int64(s.Bavail) * int64(s.Bsize), err == nil //nolint:unconvert // it has 32 bits where words do
}
