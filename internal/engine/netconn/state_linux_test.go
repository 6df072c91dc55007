package netconn

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// Shutdown does not close an idle connection on which a request has arrived that was not read.
func TestConnWithUnreadInputIsNotClaimed(t *testing.T) {
	fd, client := testkit.SocketPair(t)
	server := testkit.ConnOf(t, fd)
	want := func(claims bool, nc net.Conn, what string) {
		t.Helper()
		c := New(&Config{}, nc, t.Context())
		c.state.set(http.StateIdle)
		testkit.Equal(t, c.ClaimForClosing(), claims, what)
	}
	overTLS := tls.Server(server, &tls.Config{})
	want(true, server, "before the client has sent any")
	want(true, overTLS, "over TLS, before the client has sent any")
	io.WriteString(client, "G")
	want(false, server, "while input is unread")
	want(false, overTLS, "over TLS, while input is unread")
	want(true, struct{ net.Conn }{server}, "a connection that is not a socket")
	server.Close()
	want(true, server, "a closed connection")
}

// A write deadline ends a write although the client accepts some of it within each send timeout.
func TestDeadlineEndsSlowWrite(t *testing.T) {
	fd, client := testkit.SocketPair(t)
	c := timedConn{NetConn: testkit.ConnOf(t, fd)}
	go func() {
		for n := 1; n > 0; time.Sleep(20 * time.Millisecond) {
			n, _ = client.Read(make([]byte, 32<<10))
		}
	}()
	start := time.Now()
	c.SetWriteDeadline(start.Add(300 * time.Millisecond))
	testkit.Is(t, c.Send(make([]byte, 24<<20), 5*time.Second), os.ErrDeadlineExceeded)
	testkit.Between(t, time.Since(start), 0, 9*time.Second)
}
