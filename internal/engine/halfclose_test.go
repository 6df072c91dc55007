package engine_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// A TLS client that ends its sending side while a handler runs receives what net/http sends it,
// even if the server then closes the connection: the client's alert, which no handler reads, does
// not reset the connection.
func TestTLSClientThatHalfClosesReceivesAll(t *testing.T) {
	const size, held = 200_000, 2048 // net/http holds the end of an aborted response back
	for _, served := range [][2]string{{"net/http", "tls"}, {"tare", "tls"}, {"tare", "ServeTLS"}} {
		maker, mode := served[0], served[1]
		for name, end := range map[string]func(){"return": func() {}, "abort": endings["abort"]} {
			t.Run(maker+"/"+mode+"/"+name, func(t *testing.T) {
				closed := make(chan bool)
				s := siteOf(t, maker, mode, handle(func(w http.ResponseWriter, _ *http.Request) {
					<-closed
					time.Sleep(bound / 20) // until the alert has arrived
					io.WriteString(w, strings.Repeat("x", size))
					end()
				})())
				receive := func() error {
					c := s.connect().(*tls.Conn)
					// The client reads late, so that a part waits in the server's socket.
					if err := c.NetConn().(*net.TCPConn).SetReadBuffer(32 << 10); err != nil {
						t.Fatal(err)
					}
					io.WriteString(c, strings.Replace(get, host, host+"Connection: close\r\n", 1))
					time.Sleep(bound / 20) // so that the request arrives alone
					c.CloseWrite()
					closed <- true
					time.Sleep(bound / 4)
					b, err := io.ReadAll(c)
					if n := strings.Count(string(b), "x"); n < size-held {
						return fmt.Errorf("%d bytes of %d: %w", n, size, err)
					}
					return nil
				}
				if maker == "net/http" { // on a busy machine it may read the alert too late
					testkit.Try(t, receive)
				} else if err := receive(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
