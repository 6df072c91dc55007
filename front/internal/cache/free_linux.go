package cache

import (
	"os"
	"syscall"
)

// freeBytes returns the free space of a file's disk.
func freeBytes(f *os.File) (free int64, ok bool) {
	var s syscall.Statfs_t
	err := syscall.Fstatfs(int(f.Fd()), &s)
	return int64(s.Bavail) * int64(s.Bsize), err == nil //nolint:unconvert // 32 bits wide on 32-bit systems
}
