package cache

import (
	"os"
	"syscall"
)

// freeBytes returns the free space of a file's disk.
func freeBytes(f *os.File) (free int64, ok bool) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, false
	}
	var s syscall.Statfs_t
	if closed := raw.Control(func(fd uintptr) { err = syscall.Fstatfs(int(fd), &s) }); closed != nil || err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true //nolint:unconvert // 32 bits wide on 32-bit systems
}
