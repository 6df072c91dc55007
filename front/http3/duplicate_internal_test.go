//go:build linux

package http3

import (
	"net"
	"os"
	"syscall"
	"testing"

	"golang.org/x/net/ipv4"

	"github.com/tarehq/tare/internal/listen"
	"github.com/tarehq/tare/internal/testkit"
)

func duplicateFile(t *testing.T, f *os.File) *os.File {
	t.Helper()
	fd, err := syscall.Dup(int(f.Fd()))
	testkit.Must(t, err)
	return os.NewFile(uintptr(fd), f.Name())
}

// duplicateUDP returns another descriptor of a socket, as another process has it.
func duplicateUDP(t *testing.T, conn *net.UDPConn) *net.UDPConn {
	t.Helper()
	f, err := listen.DuplicateConn(conn, "udp")
	testkit.Must(t, err)
	defer f.Close()
	other, err := net.FilePacketConn(f)
	testkit.Must(t, err)
	return other.(*net.UDPConn)
}

// newMessages returns messages as quic-go passes them.
func newMessages() []ipv4.Message {
	all := make([]ipv4.Message, 8)
	for i := range all {
		all[i].Buffers, all[i].OOB = [][]byte{make([]byte, 1500)}, make([]byte, 128)
	}
	return all
}
