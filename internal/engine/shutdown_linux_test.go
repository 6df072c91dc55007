package engine

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
)

// pair returns both ends of a connection: a descriptor, and the client.
func pair(t *testing.T) (fd int, client *net.UnixConn) {
	t.Helper()
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ends[0], connOf(t, ends[1])
}

// Unread input of connections of the goroutine path is seen, so that Shutdown does not close them.
func TestUnreadInputIsSeen(t *testing.T) {
	fd, client := pair(t)
	server := connOf(t, fd)
	for name, nc := range map[string]net.Conn{"socket": server, "tls": tls.Server(server, &tls.Config{})} {
		if !isQuiet(nc) {
			t.Errorf("%s: input before the client has sent any", name)
		}
	}
	io.WriteString(client, "G")
	for name, nc := range map[string]net.Conn{"socket": server, "tls": tls.Server(server, &tls.Config{})} {
		if isQuiet(nc) {
			t.Errorf("%s: no input", name)
		}
	}
	if !isQuiet(struct{ net.Conn }{server}) {
		t.Error("input of a connection that is not a socket")
	}
	server.Close()
	if !isQuiet(server) {
		t.Error("input of a closed connection")
	}
}

// connOf returns the connection of a descriptor.
func connOf(t *testing.T, fd int) *net.UnixConn {
	t.Helper()
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close()
	nc, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc.(*net.UnixConn)
}
