//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package client

// isQuiet returns true, because this system cannot check a socket without reading from it.
func isQuiet(int) bool { return true }
