//go:build !unix || aix

package poll

// Quiet returns true: this system cannot check a socket without reading from it.
func Quiet(int) bool { return true }

// Discard does nothing: package syscall has no read that never waits.
func Discard(int) {}
