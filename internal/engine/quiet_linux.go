package engine

import (
	"crypto/tls"
	"net"
	"syscall"

	"github.com/tarehq/tare/internal/poll"
)

// isQuiet reports whether nothing has arrived on a connection that was not read. The result is true
// if nc is not a socket.
func isQuiet(nc net.Conn) bool {
	if tc, ok := nc.(*tls.Conn); ok {
		nc = tc.NetConn()
	}
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	quiet := true
	_ = raw.Control(func(fd uintptr) { quiet = poll.Quiet(int(fd)) }) // it fails after Close
	return quiet
}
