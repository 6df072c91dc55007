package engine_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// A TLS client that ends its sending side while a handler runs receives all of the response, even
// if the server then closes the connection: the client's alert, which no handler reads, does
// not reset the connection.
func TestTLSClientThatHalfClosesReceivesAll(t *testing.T) {
	const size, held = 200_000, 2048 // the end of an aborted response is held back, as by net/http
	for _, mode := range []string{"tls", "ServeTLS"} {
		for name, end := range map[string]func(){"return": func() {}, "abort": endings["abort"]} {
			t.Run(mode+"/"+name, func(t *testing.T) {
				closed := make(chan bool)
				s := siteOf(t, "tare", mode, handle(func(w http.ResponseWriter, _ *http.Request) {
					<-closed
					time.Sleep(40 * time.Millisecond) // until the alert has arrived
					io.WriteString(w, strings.Repeat("x", size))
					end()
				})())
				c := s.connect().(*tls.Conn)
				// The client reads late, so that a part waits in the server's socket.
				testkit.Must(t, c.NetConn().(*net.TCPConn).SetReadBuffer(32<<10))
				io.WriteString(c, strings.Replace(get, host, host+"Connection: close\r\n", 1))
				time.Sleep(40 * time.Millisecond) // so that the request arrives alone
				c.CloseWrite()
				closed <- true
				time.Sleep(200 * time.Millisecond)
				b, err := io.ReadAll(c)
				if n := strings.Count(string(b), "x"); n < size-held {
					t.Errorf("%d bytes of %d: %v", n, size, err)
				}
			})
		}
	}
}
