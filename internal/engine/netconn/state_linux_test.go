package netconn

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// Shutdown does not close an idle connection on which a request has arrived that was not read.
func TestConnWithUnreadInputIsNotClaimed(t *testing.T) {
	fd, client := testkit.SocketPair(t)
	server := testkit.ConnOf(t, fd)
	claims := func(nc net.Conn) bool {
		c := New(&Config{}, nc, t.Context())
		c.setState(http.StateIdle)
		return c.ClaimForClosing()
	}
	all := map[string]net.Conn{"socket": server, "tls": tls.Server(server, &tls.Config{})}
	for name, nc := range all {
		if !claims(nc) {
			t.Errorf("%s: not claimed before the client has sent any", name)
		}
	}
	io.WriteString(client, "G")
	for name, nc := range all {
		if claims(nc) {
			t.Errorf("%s: claimed while input is unread", name)
		}
	}
	if !claims(struct{ net.Conn }{server}) {
		t.Error("a connection that is not a socket is not claimed")
	}
	server.Close()
	if !claims(server) {
		t.Error("a closed connection is not claimed")
	}
}
