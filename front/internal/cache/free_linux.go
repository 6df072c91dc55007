package cache

import "syscall"

func freeBytes(dir string) (free int64, ok bool) {
	var s syscall.Statfs_t
	err := syscall.Statfs(dir, &s)
	return int64(s.Bavail) * int64(s.Bsize), err == nil //nolint:unconvert // 32 bits wide on 32-bit systems
}
