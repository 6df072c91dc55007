//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package client

import "syscall"

func isQuiet(fd int) bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err == syscall.EAGAIN //nolint:errorlint // a bare errno
}
