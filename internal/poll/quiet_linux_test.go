package poll_test

import (
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
)

// A socket is quiet until something arrives: bytes, the end of the input, or a failure.
func TestQuietReportsWhatArrives(t *testing.T) {
	for name, arrive := range map[string]func(net.Conn){
		"a byte":  func(c net.Conn) { _, _ = io.WriteString(c, "x") },
		"the end": func(c net.Conn) { _ = c.(interface{ CloseWrite() error }).CloseWrite() },
		"a close": func(c net.Conn) { c.Close() },
		"a reset": func(c net.Conn) {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			c.Close()
		},
	} {
		for _, network := range []string{"tcp", "unix"} {
			address := "127.0.0.1:0"
			if network == "unix" {
				address = filepath.Join(t.TempDir(), "s")
			}
			l := testkit.Value(net.Listen(network, address))(t)
			defer l.Close()
			own, peer := testkit.Connect(t, l, new(net.Dialer))
			quiet := func() (is bool) {
				testkit.Control(t, own, func(fd int) { is = poll.Quiet(fd) })
				return is
			}
			for range 3 {
				testkit.Equal(t, quiet(), true, network, name, "before")
			}
			arrive(peer)
			testkit.WaitFor(t, network+": "+name, func() bool { return !quiet() })
			testkit.Equal(t, quiet(), false, network, name, "again: checking consumes nothing")
		}
	}
}
