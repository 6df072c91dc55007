package testkit

import (
	"net"
	"testing"
)

// Connect connects to a listener, and returns both ends of the connection. They are closed when the
// test ends.
func Connect(t testing.TB, l net.Listener, dialer *net.Dialer) (client, accepted net.Conn) {
	t.Helper()
	client, err := dialer.DialContext(t.Context(), l.Addr().Network(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if accepted, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return client, accepted
}

// ServeUnix listens on a unix socket until the test ends. Each connection is served in a goroutine
// of its own, and closed when serve returns.
func ServeUnix(t testing.TB, path string, serve func(net.Conn)) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
}
