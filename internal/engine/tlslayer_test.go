package engine_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
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
	if err != nil {
		s.Fatal(err)
	}
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
					if err := c.Handshake(); err != nil {
						s.Fatal(err)
					}
					raw.holding = segment > 100
					for text := []byte(strings.Repeat(request, n)); len(text) > 0; {
						part := text[:min(len(text), record)]
						text = text[len(part):]
						if _, err := c.Write(part); err != nil {
							s.Fatal(err)
						}
					}
					if err := raw.send(); err != nil {
						s.Fatal(err)
					}
					got := readResponses(s.T, c, n)
					if m := strings.Count(got, "hello true."); m != n {
						s.Errorf("version %x, segments of %d, records of %d: %d responses", version, segment, record, m)
					}
				}
			}
		}
	})
}

// A client that ends its output has left, whether it ends the TCP connection or not. A client that
// sends another request has not.
func TestContextEndsWhenTLSClientEndsOutput(t *testing.T) {
	entered, ended := make(chan bool), make(chan error, 1)
	overTLS(t, handle(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/next" {
			io.WriteString(w, "next.")
			return
		}
		_ = r.Context().Err()
		entered <- true
		<-entered
		if r.URL.Path == "/" {
			<-r.Context().Done()
			ended <- r.Context().Err()
		}
		io.WriteString(w, "first.")
	}), func(s *site) {
		for name, leave := range map[string]func(*tls.Conn) error{
			"alert": (*tls.Conn).CloseWrite,
			"close": (*tls.Conn).Close,
			"end":   func(c *tls.Conn) error { return c.NetConn().Close() },
		} {
			c := s.connect().(*tls.Conn)
			io.WriteString(c, get)
			<-entered
			if err := leave(c); err != nil {
				s.Fatal(err)
			}
			entered <- true
			if err := <-ended; !errors.Is(err, context.Canceled) {
				s.Errorf("%s: the context ended with %v", name, err)
			}
		}
		c := s.connect()
		io.WriteString(c, strings.Replace(get, "/", "/stay", 1))
		<-entered
		io.WriteString(c, strings.Replace(get, "/", "/next", 1))
		entered <- true
		if got := readResponses(s.T, c, 2); !strings.Contains(got, "first.") || !strings.HasSuffix(got, "next.") {
			s.Errorf("responses %q", got)
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
			if err != nil {
				s.Fatal(err)
			}
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
				for range 60_000 { // the log is written at about the time when the connection ends
					if strings.Contains(s.logged.String(), want) {
						break
					}
					time.Sleep(time.Millisecond)
				}
				if got := s.logged.String(); !strings.Contains(got, want) || !strings.Contains(got, test.want) {
					s.Errorf("logged %q, want %s%s", got, want, test.want)
				}
			})
		})
	}
}

// Clients that negotiate HTTP/2 are served by it, next to others on the same listener.
func TestClientsChooseProtocolByALPN(t *testing.T) {
	l, config, dial := listenTLS(t)
	config.NextProtos = []string{"h2", "http/1.1"}
	set := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s.", r.Proto, r.TLS.NegotiatedProtocol)
	})}
	s, served := engine.New(set), make(chan error, 1)
	go func() { served <- s.ServeTLS(l, config) }()
	for proto, want := range map[string]string{"h2": "HTTP/2.0 h2.", "http/1.1": "HTTP/1.1 http/1.1."} {
		transport := &http.Transport{Protocols: new(http.Protocols), ForceAttemptHTTP2: true,
			DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
				c, err := dial()
				if err != nil {
					return nil, err
				}
				raw := c.(*tls.Conn).NetConn()
				tc := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{proto}})
				return tc, tc.Handshake()
			}}
		transport.Protocols.SetHTTP1(proto != "h2")
		transport.Protocols.SetHTTP2(proto == "h2")
		client := &http.Client{Transport: transport, Timeout: time.Minute}
		for range 3 {
			resp, err := client.Get("https://host/")
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if string(b) != want {
				t.Errorf("response %q, want %q", b, want)
			}
		}
		defer transport.CloseIdleConnections()
	}
	if accepted, open := s.Connections(); accepted != 2 || open != 2 {
		t.Errorf("%d connections accepted, %d open", accepted, open)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	<-served
}

// A small file is sent in the record of its response's head: the kernel cannot encrypt what it
// copies, so that copying would only make two writes of one.
func TestSmallFileIsSentInOneRecord(t *testing.T) {
	const application, size = 23, 900
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, bytes.Repeat([]byte("."), size), 0o600); err != nil {
		t.Fatal(err)
	}
	overTLS(t, handle(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) }), func(s *site) {
		c, err := s.dial()
		if err != nil {
			s.Fatal(err)
		}
		raw := &recordingConn{Conn: c.(*tls.Conn).NetConn()}
		c = tls.Client(raw, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(c, strings.Replace(get, host, host+"Connection: close\r\n", 1))
		b, err := io.ReadAll(c)
		if n := bytes.Count(recordTypes(raw.received.Bytes()), []byte{application}); n != 1 || err != nil {
			s.Errorf("%d bytes in %d records, %v", len(b), n, err)
		}
	})
}
