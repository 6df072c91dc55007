package testkit

import (
	"net"
	"os"
	"syscall"
	"testing"
)

// SocketPair returns both ends of a connection: a descriptor, and the client.
func SocketPair(t testing.TB) (fd int, client *net.UnixConn) {
	t.Helper()
	const kind = syscall.SOCK_STREAM | syscall.SOCK_CLOEXEC | syscall.SOCK_NONBLOCK
	ends := Value(syscall.Socketpair(syscall.AF_UNIX, kind, 0))(t)
	return ends[0], ConnOf(t, ends[1])
}

// ConnOf returns the connection of a descriptor.
func ConnOf(t testing.TB, fd int) *net.UnixConn {
	t.Helper()
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close()
	nc := Value(net.FileConn(file))(t)
	t.Cleanup(func() { nc.Close() })
	return nc.(*net.UnixConn)
}
