//go:build unix && !aix && !linux

package poll

import "syscall"

// Quiet reports whether there is neither unread input, nor the end of the input, nor a failure. It
// consumes nothing.
func Quiet(fd int) bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err == syscall.EAGAIN //nolint:errorlint // a bare errno
}

// Discard reads and discards what has arrived.
func Discard(fd int) {
	var b [4 << 10]byte
	for range 64 {
		if n, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_DONTWAIT); n < len(b) || err != nil {
			return
		}
	}
}
