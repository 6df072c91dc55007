//go:build !linux

package cache

import "os"

// freeBytes is not supported here.
func freeBytes(*os.File) (free int64, ok bool) { return 0, false }
