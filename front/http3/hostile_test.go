package http3_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	client "github.com/quic-go/quic-go/http3"

	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
)

// A client that reads nothing holds up its handler no longer than send_timeout. Its connection
// stays usable.
func TestClientThatNeverReads(t *testing.T) {
	t.Parallel()
	failed := make(chan error, 1)
	app := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				failed <- err
				return
			}
		}
	})
	s := serve(t, `server { listen ADDR quic; send_timeout 1s; location / { return 200 text; }
		location /app { proxy_pass http://app; } }`, server.Bind("app", app))
	c, dialed := s.http3Client(&quic.Config{InitialStreamReceiveWindow: 10 << 10, MaxStreamReceiveWindow: 10 << 10})
	resp, err := c.Get("https://" + s.addr + "/app")
	testkit.Must(t, err)
	defer resp.Body.Close()
	select {
	case err := <-failed:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the handler still waits")
	}
	if n, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Errorf("the response seems complete, with %d bytes", n)
	}
	if s.get(c, "/"); len(dialed.String()) != 1 {
		t.Errorf("%d connections", len(dialed.String()))
	}
}

// Streams without a request do not keep a connection open, and neither does a GET that never ends.
func TestIncompleteRequestsEnd(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	t.Parallel()
	s := serve(t, `server { listen ADDR quic; keepalive_timeout 500ms; client_header_timeout 500ms; return 200 text; }`)
	for _, sent := range []string{
		"",                                 // nothing
		"\x01",                             // the beginning of HEADERS
		"\x01\x04\x00\x00\xd1\xd7",         // GET, https, and no end of the stream
		"\x01\x40\x64\x00\x00\xd1",         // HEADERS of 100 bytes
		"\x21\x04abcd",                     // a reserved frame
		"\x00\x04abcd", "\x04\x00", "\xff", // DATA, SETTINGS and an incomplete type
	} {
		t.Run(fmt.Sprintf("%q", sent), func(t *testing.T) {
			t.Parallel()
			q, err := s.dial(quic.Config{})
			testkit.Must(t, err)
			if stream, err := q.OpenStream(); err == nil { // else the connection has ended
				_, _ = io.WriteString(stream, sent)
			}
			select {
			case <-q.Context().Done():
			case <-time.After(patience):
				t.Error("the connection is still open")
			}
		})
	}
}

// A client has at most http3_max_concurrent_streams.
func TestStreamsAreLimited(t *testing.T) {
	t.Parallel()
	for directives, want := range map[string]int{"": 128, "http3_max_concurrent_streams 3;": 3} {
		s := serve(t, `server { listen ADDR quic; `+directives+` return 200 text; }`)
		q, err := s.dial(quic.Config{})
		testkit.Must(t, err)
		n := 0
		for ; n < 1000; n++ {
			if _, err := q.OpenStream(); err != nil {
				break
			}
		}
		if n != want {
			t.Errorf("%q: %d streams, want %d", directives, n, want)
		}
		_ = q.CloseWithError(0, "")
	}
}

// clientConn is a client's socket that counts bytes. It may be mute after its first packet.
type clientConn struct {
	net.PacketConn
	isMute         bool
	sent, received atomic.Int64
	retries        atomic.Int64 // Retry packets
}

func newClientConn(t *testing.T) *clientConn {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { c.Close() })
	return &clientConn{PacketConn: c}
}

func (c *clientConn) WriteTo(b []byte, to net.Addr) (int, error) {
	if c.isMute && c.sent.Load() > 0 {
		return len(b), nil
	}
	c.sent.Add(int64(len(b)))
	return c.PacketConn.WriteTo(b, to)
}

func (c *clientConn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := c.PacketConn.ReadFrom(b)
	c.received.Add(int64(n))
	if n > 0 && b[0]&0xf0 == 0xf0 { // RFC 9000, 17.2.5
		c.retries.Add(1)
	}
	return n, from, err
}

// connect opens a connection from a socket.
func (s *site) connect(c *clientConn, timeout time.Duration) (*quic.Conn, error) {
	to, err := net.ResolveUDPAddr("udp", s.addr)
	testkit.Must(s, err)
	config := clientTLS()
	config.NextProtos = []string{"h3"}
	transport := &quic.Transport{Conn: c}
	s.Cleanup(func() { transport.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return transport.Dial(ctx, to, config, nil)
}

// A client that has not proved its address receives at most three times what it has sent, however
// long the certificate is.
func TestAmplificationIsLimited(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	t.Parallel()
	s := serve(t, `server { listen ADDR quic; return 200 text; }`)
	var names []string
	for n := range 400 {
		names = append(names, fmt.Sprintf("name-%d.example.org", n))
	}
	cert, key := testkit.SelfSign(t, x509.Certificate{DNSNames: append(names, "localhost")})
	testkit.Must(t, os.WriteFile(filepath.Join(s.dir, "cert.pem"), append(cert, key...), 0o600))
	s.reload(`server { listen ADDR quic; return 200 text; }`)
	c := newClientConn(t)
	c.isMute = true
	if _, err := s.connect(c, 3*time.Second); err == nil {
		t.Fatal("a mute client has a connection")
	}
	if sent, got := c.sent.Load(), c.received.Load(); got == 0 || got > 3*sent {
		t.Errorf("sent %d bytes, received %d", sent, got)
	}
}

// With quic_retry each client proves its address.
func TestRetryIsSent(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	t.Parallel()
	s := serve(t, `server { listen ADDR quic; return 200 text; }`)
	for _, want := range []bool{false, true} {
		c := newClientConn(t)
		if _, err := s.connect(c, patience); err != nil {
			t.Fatal(err)
		}
		if got := c.retries.Load(); got > 0 != want {
			t.Errorf("%d Retry packets, want some: %v", got, want)
		}
		s.reload(`server { listen ADDR quic; quic_retry on; return 200 text; }`)
	}
}

// Early data is not accepted: an attacker could replay the request in it.
func TestEarlyDataIsRejected(t *testing.T) {
	t.Parallel()
	s := serve(t, `server { listen ADDR quic; ssl_early_data on; return 200 text; }`)
	config := clientTLS()
	config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for n := range 2 {
		var q *quic.Conn
		transport := &client.Transport{TLSClientConfig: config}
		transport.Dial = func(ctx context.Context, to string, t *tls.Config, o *quic.Config) (c *quic.Conn, err error) {
			q, err = quic.DialAddrEarly(ctx, to, t, o)
			return q, err
		}
		s.get(&http.Client{Transport: transport, Timeout: patience}, "/")
		if state := q.ConnectionState(); state.Used0RTT {
			t.Errorf("connection %d: early data was accepted", n)
		}
		transport.Close()
	}
}
