//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package pool

// isQuiet is not known here before the connection is used.
func isQuiet(int) bool { return true }
