package engine

import (
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// Unread input of connections of the goroutine path is seen, so that Shutdown does not close them.
func TestUnreadInputIsSeen(t *testing.T) {
	fd, client := testkit.SocketPair(t)
	server := testkit.ConnOf(t, fd)
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
