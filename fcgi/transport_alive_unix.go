//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package fcgi

import (
	"net"
	"syscall"
)

// alive reports whether an idle connection has not been closed by its peer, as far as can be
// told at once. Nothing may have arrived on it either.
func alive(nc net.Conn) bool {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN
	})
	return err == nil && quiet
}
