package engine_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// overTLS runs a test on both paths of TLS connections.
func overTLS(t *testing.T, settings func() *http.Server, test func(*site)) {
	t.Helper()
	someModes(t, settings, test, "tls", "ServeTLS")
}

// splitConn sends in pieces of a size. While it is holding, it collects what is written until send.
type splitConn struct {
	*net.TCPConn
	size    int
	holding bool
	held    []byte
}

func (c *splitConn) Write(p []byte) (int, error) {
	if c.holding {
		c.held = append(c.held, p...)
		return len(p), nil
	}
	for i := 0; i < len(p); i += c.size {
		if _, err := c.TCPConn.Write(p[i:min(len(p), i+c.size)]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

func (c *splitConn) send() error {
	c.holding = false
	_, err := c.Write(c.held)
	c.held = nil
	return err
}

// splitClient returns a TLS connection whose ciphertext is sent in pieces.
func (s *site) splitClient(size int, config *tls.Config) (*tls.Conn, *splitConn) {
	s.Helper()
	c, err := s.dial()
	testkit.Must(s, err)
	raw := &splitConn{TCPConn: c.(*tls.Conn).NetConn().(*net.TCPConn), size: size}
	s.Cleanup(func() { raw.Close() })
	raw.SetDeadline(time.Now().Add(time.Minute))
	config.InsecureSkipVerify = true
	return tls.Client(raw, config), raw
}

// Neither the borders of TCP segments nor those of TLS records matter: not in the handshake, not in
// a head, and not in a body. Several requests may arrive at once, in one record or in many.
func TestTLSRecordsArriveInAnyPieces(t *testing.T) {
	const n = 20
	request := "POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello"
	overTLS(t, handle(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v.", b, r.TLS.HandshakeComplete)
	}), func(s *site) {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			for _, segment := range []int{1, 7, 100, 1 << 20} {
				for _, record := range []int{1, 50, 1 << 20} {
					c, raw := s.splitClient(segment, &tls.Config{MaxVersion: version})
					testkit.Must(s, c.Handshake())
					raw.holding = segment > 100
					for text := []byte(strings.Repeat(request, n)); len(text) > 0; {
						part := text[:min(len(text), record)]
						text = text[len(part):]
						if _, err := c.Write(part); err != nil {
							s.Fatal(err)
						}
					}
					testkit.Must(s, raw.send())
					got := readResponses(s.T, c, n)
					if m := strings.Count(got, "hello true."); m != n {
						s.Errorf("version %x, segments of %d, records of %d: %d responses", version, segment, record, m)
					}
				}
			}
		}
	})
}

// recordingConn records what is received.
type recordingConn struct {
	net.Conn
	mu       sync.Mutex
	received bytes.Buffer
}

func (c *recordingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.received.Write(p[:n])
	return n, err
}

// recordTypes returns the types of the TLS records in b.
func recordTypes(b []byte) (types []byte) {
	for len(b) >= 5 {
		types = append(types, b[0])
		b = b[min(len(b), 5+int(b[3])<<8+int(b[4])):]
	}
	return types
}

// The last record of a connection that the server ends is an alert, close_notify, whether it ends
// after a response or while it is idle.
func TestTLSConnectionEndsWithCloseNotify(t *testing.T) {
	const alert = 21
	overTLS(t, handle(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "done.") }), func(s *site) {
		for _, closing := range []bool{true, false} {
			c, err := s.dial()
			testkit.Must(s, err)
			raw := &recordingConn{Conn: c.(*tls.Conn).NetConn()}
			c = tls.Client(raw, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
			defer c.Close()
			c.SetDeadline(time.Now().Add(time.Minute))
			request := get
			if closing {
				request = strings.Replace(get, host, host+"Connection: close\r\n", 1)
			}
			io.WriteString(c, request)
			if !closing {
				readResponses(s.T, c, 1)
				s.server.SetKeepAlivesEnabled(false)
			}
			if _, err := io.ReadAll(c); err != nil {
				s.Error(err)
			}
			types := recordTypes(raw.received.Bytes())
			if types[len(types)-1] != alert {
				s.Errorf("closing %v: records of types %v", closing, types)
			}
		}
	})
}

// Failed handshakes are logged alike.
func TestFailedHandshakesAreLogged(t *testing.T) {
	for name, test := range map[string]struct{ sent, want string }{
		"plaintext": {get, "client sent an HTTP request to an HTTPS server"},
		"preface":   {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "client sent an HTTP request to an HTTPS server"},
		"garbage":   {"garbage garbage", "tls: first record does not look like a TLS handshake"},
		"nothing":   {"", "EOF"},
		"part":      {"\x16\x03\x01\x02\x00\x01", "EOF"},
		"bad hello": {"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", "tls: error decoding message"},
		"timeout":   {"\x16", "i/o timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			isTimeout := name == "timeout"
			settings := func() *http.Server {
				set := new(http.Server)
				if isTimeout {
					set.ReadHeaderTimeout = time.Millisecond
				}
				return set
			}
			overTLS(t, settings, func(s *site) {
				_, raw := s.splitClient(1<<20, new(tls.Config))
				io.WriteString(raw, test.sent)
				if !isTimeout {
					raw.CloseWrite()
				}
				io.ReadAll(raw)
				want := fmt.Sprintf("http: TLS handshake error from %v: ", raw.LocalAddr())
				testkit.WaitFor(s, want, func() bool { return strings.Contains(s.logged.String(), want) })
				if got := s.logged.String(); !strings.Contains(got, test.want) {
					s.Errorf("logged %q, want %s%s", got, want, test.want)
				}
			})
		})
	}
}

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
