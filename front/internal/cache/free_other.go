//go:build !linux

package cache

// freeBytes is not supported here.
func freeBytes(string) (free int64, ok bool) { return 0, false }
