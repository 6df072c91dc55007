package engine_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// Connections are counted while they wait and while they are served, but not after they have closed
// or were hijacked.
func TestConnectionsAreCounted(t *testing.T) {
	everyMode(t, handle(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/taken" {
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		c.Close()
	}), func(s *site) {
		accepted, open := s.server.Connections()
		if accepted != 0 || open != 0 {
			s.Errorf("%d and %d before any", accepted, open)
		}
		var conns []net.Conn
		request := func(path string) {
			c := s.connect()
			conns = append(conns, c)
			io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: host\r\n\r\n")
			if n, err := c.Read(make([]byte, 1000)); n == 0 {
				s.Fatal(err)
			}
		}
		await := func(accepted, open int64) {
			s.Helper()
			testkit.WaitFor(s.T, fmt.Sprintf("%d connections, %d open", accepted, open), func() bool {
				a, o := s.server.Connections()
				return a == accepted && o == open
			})
		}
		request("/")
		request("/")
		request("/")
		await(3, 3)
		request("/taken")
		await(4, 3)
		conns[0].Close()
		conns[1].Close()
		await(4, 1)
	})
}

// A connection is counted as reading while a part of a head has arrived: not before, and not while
// its request is served.
func TestPartialHeadsAreCounted(t *testing.T) {
	everyMode(t, handle(func(w http.ResponseWriter, _ *http.Request) {}), func(s *site) {
		await := func(n int64) {
			s.Helper()
			testkit.WaitFor(s.T, fmt.Sprintf("%d partial heads", n), func() bool { return s.server.Reading() == n })
		}
		connect := func(send string) net.Conn {
			c := s.connect()
			io.WriteString(c, send)
			return c
		}
		const request = "GET / HTTP/1.1\r\nHost: host\r\n\r\n"
		connect("")
		first := connect("G")
		second := connect(request + "GET / HTTP/1.1\r\nHo")
		third := connect("\r\n")
		await(3)
		io.WriteString(first, "ET / HT")
		await(3)
		io.WriteString(first, "TP/1.1\r\nHost: host\r\n\r\n")
		await(2)
		second.Close()
		await(1)
		io.WriteString(third, "GET /\r\n\r\n") // it is malformed
		await(0)
		io.WriteString(first, "PO")
		await(1)
		first.Close()
		await(0)
	})
}
