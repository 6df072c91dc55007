package client

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// A body reports input if, and only if, a Read would return at once.
func TestBodiesReportInput(t *testing.T) {
	overAll(t, func(s *site) {
		next := make(chan bool)
		s.serve(func(_ int, c speaker) {
			if _, _, ok := receive(c); !ok {
				return
			}
			c.begin()
			c.send("hello")
			<-next
			c.send(" world")
			<-next
			c.end()
			<-next
		})
		resp, err := s.the().RoundTrip(s.request("GET", nil))
		testkit.Must(t, err)
		defer close(next)
		body := resp.Body.(*responseBody)
		for i, text := range []string{"hello", " world"} {
			b := make([]byte, len(text))
			if n, err := body.Read(b[:2]); n != 2 || err != nil || !body.HasInput() {
				t.Fatalf("%q: %d bytes, %v, or no input", text, n, err)
			}
			if _, err := io.ReadFull(body, b[2:]); err != nil || string(b) != text || body.HasInput() {
				t.Fatalf("%q, %v, or input without any", b, err)
			}
			if next <- true; i == 0 && body.x.conn.probe != nil {
				testkit.WaitFor(t, "input", body.HasInput)
			}
		}
		if n, err := body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) || !body.HasInput() {
			t.Fatalf("%d bytes, %v, or no end", n, err)
		}
	})
}

// TLS may hold records that the client has not read: they are input, too.
func TestBodiesReportInputThatTLSHolds(t *testing.T) {
	serverTLS, clientTLS := certificates(t)
	l := listen(t, "tcp", "127.0.0.1:0")
	end := make(chan bool)
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		once := &joinedWrites{Conn: nc}
		tc := tls.Server(once, serverTLS)
		if _, err := http.ReadRequest(bufio.NewReader(tc)); err != nil {
			return
		}
		once.isHeld = true
		for _, record := range []string{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "a", "b", "c"} {
			_, _ = io.WriteString(tc, record)
		}
		_, _ = nc.Write(once.held)
		<-end
	}()
	c := New(&Config{Settings: &http.Transport{TLSClientConfig: clientTLS}})
	resp, err := c.RoundTrip(request(t, "GET", "https://"+l.Addr().String(), nil))
	testkit.Must(t, err)
	defer close(end)
	for _, want := range []string{"a", "b", "c"} {
		var b [8]byte
		n, err := resp.Body.Read(b[:])
		has := resp.Body.(*responseBody).HasInput()
		if string(b[:n]) != want || err != nil || has != (want != "c") {
			t.Fatalf("%q, %v, input %v; want %q", b[:n], err, has, want)
		}
	}
	resp.Body.Close()
}

// joinedWrites is a connection that keeps what is written while isHeld is set.
type joinedWrites struct {
	net.Conn
	isHeld bool
	held   []byte
}

func (c *joinedWrites) Write(p []byte) (int, error) {
	if c.isHeld {
		c.held = append(c.held, p...)
		return len(p), nil
	}
	return c.Conn.Write(p)
}
