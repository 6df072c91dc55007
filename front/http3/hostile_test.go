package http3_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	client "github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"

	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// A client that reads nothing holds up its handler no longer than send_timeout. Its connection
// stays usable.
func TestClientThatNeverReads(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it waits for a timeout")
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
	resp := testkit.Value(c.Get("https://" + s.addr + "/app"))(t)
	defer resp.Body.Close()
	testkit.Is(t, testkit.Receive(t, failed, "the handler's error"), os.ErrDeadlineExceeded)
	testkit.Fails(io.Copy(io.Discard, resp.Body))(t, "", "the response")
	s.get(c, "/")
	testkit.Equal(t, len(dialed.String()), 1, "connections")
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
			q := testkit.Value(s.dial(quic.Config{}))(t)
			if stream, err := q.OpenStream(); err == nil { // else the connection has ended
				_, _ = io.WriteString(stream, sent)
			}
			testkit.Receive(t, q.Context().Done(), "the end of the connection")
		})
	}
}

// A client has at most http3_max_concurrent_streams.
func TestStreamsAreLimited(t *testing.T) {
	t.Parallel()
	for directives, want := range map[string]int{"": 128, "http3_max_concurrent_streams 3;": 3} {
		s := serve(t, `server { listen ADDR quic; `+directives+` return 200 text; }`)
		q := testkit.Value(s.dial(quic.Config{}))(t)
		n := 0
		for ; n < 1000; n++ {
			if _, err := q.OpenStream(); err != nil {
				break
			}
		}
		testkit.Equal(t, n, want, directives, "streams")
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
	c := testkit.Value(net.ListenPacket("udp", "127.0.0.1:0"))(t)
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
	to := testkit.Value(net.ResolveUDPAddr("udp", s.addr))(s)
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
	cert, key := tlstest.SelfSign(t, x509.Certificate{DNSNames: append(names, "localhost")})
	testkit.Must(t, os.WriteFile(filepath.Join(s.dir, "cert.pem"), append(cert, key...), 0o600))
	s.reload(`server { listen ADDR quic; return 200 text; }`)
	c := newClientConn(t)
	c.isMute = true
	testkit.Fails(s.connect(c, 3*time.Second))(t, "", "a mute client has a connection")
	testkit.Between(t, c.received.Load(), 1, 3*c.sent.Load(), "received bytes")
}

// With quic_retry each client proves its address.
func TestRetryIsSent(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	t.Parallel()
	s := serve(t, `server { listen ADDR quic; return 200 text; }`)
	for _, want := range []bool{false, true} {
		c := newClientConn(t)
		testkit.Value(s.connect(c, patience))(t)
		testkit.Equal(t, c.retries.Load() > 0, want, "some Retry packets")
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
		testkit.Equal(t, q.ConnectionState().Used0RTT, false, "early data on connection", n)
		transport.Close()
	}
}

// appendInteger appends an integer with a prefix (RFC 7541, 5.1), whose first byte has other bits.
func appendInteger(b []byte, bits byte, prefix, n int) []byte {
	most := 1<<prefix - 1
	if n < most {
		return append(b, bits|byte(n))
	}
	b = append(b, bits|byte(most))
	for n -= most; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// headOf returns the HEADERS frame of fields, which are names and values.
func headOf(fields ...string) string {
	block := []byte{0, 0} // RFC 9204, 4.5.1: no dynamic table
	for i := 0; i < len(fields); i += 2 {
		block = append(appendInteger(block, 0x20, 3, len(fields[i])), fields[i]...) // RFC 9204, 4.5.6
		block = append(appendInteger(block, 0, 7, len(fields[i+1])), fields[i+1]...)
	}
	return string(quicvarint.Append(quicvarint.Append(nil, 1), uint64(len(block)))) + string(block)
}

// getOf returns the HEADERS frame of a GET request for a path, with more fields.
func getOf(path string, fields ...string) string {
	return headOf(append([]string{":method", "GET", ":scheme", "https", ":authority", "localhost", ":path", path},
		fields...)...)
}

// send opens a stream and sends a text. The result is what the server sends.
func (s *site) send(q *quic.Conn, text string) (response string) {
	s.Helper()
	stream, err := q.OpenStream()
	if err == nil {
		err = stream.SetReadDeadline(time.Now().Add(patience))
	}
	testkit.Must(s, err)
	_, _ = io.WriteString(stream, text) // the server may not want all of it
	stream.Close()
	b, _ := io.ReadAll(stream) // the error is that of the stream
	return string(b)
}

// Each request has one line in the access log, also if quic-go rejects it without a handler.
func TestRejectedRequestsAreLogged(t *testing.T) {
	t.Parallel()
	s := serve(t, `log_format test '$status "$request" $host "$http_user_agent" $http3 $remote_addr';
		large_client_header_buffers 4 8k;
		server { listen ADDR quic; server_name localhost; access_log DIR/access.log test; root DIR;
		location /text { return 200 text; } location /app { proxy_pass http://app; } }`,
		server.Bind("app", http.HandlerFunc(describe)))
	var want []string
	for _, c := range []struct{ sent, want string }{
		{getOf("/text", "user-agent", "good"), `200 "GET /text HTTP/3.0" localhost "good"`},
		{getOf("/text?trailer") + headOf("x-sum", "1"), `200 "GET /text?trailer HTTP/3.0" localhost "-"`},
		{getOf("/app?trailer") + "\x00\x02ab" + headOf("x-sum", "1"), `200 "GET /app?trailer HTTP/3.0" localhost "-"`},
		{getOf("/upper", "user-agent", "bad", "X-Upper", "x"), `400 "GET /upper HTTP/3.0" localhost "bad"`},
		{getOf("/value", "x", "a\nb"), `400 "GET /value HTTP/3.0" localhost "-"`},
		{getOf("/connection", "connection", "close"), `400 "GET /connection HTTP/3.0" localhost "-"`},
		{getOf("/length", "content-length", "1x"), `400 "GET /length HTTP/3.0" localhost "-"`},
		{getOf("/hosts", "host", "other"), `400 "GET /hosts HTTP/3.0" localhost "-"`},
		{headOf(":method", "GET", ":scheme", "https", ":authority", "localhost"), `400 "" localhost "-"`},
		{headOf(":method", "GET", "x", "y", ":path", "/late", ":authority", "localhost"),
			`400 "GET /late HTTP/3.0" localhost "-"`},
		{"\x01\x03\x00\x00\xff", `400 "" localhost "-"`},     // QPACK
		{"\x01\x40\x64\x00\x00\xd1", `400 "" localhost "-"`}, // ends early
		{getOf("/large", "x", strings.Repeat("x", 100<<10)), `431 "" localhost "-"`},
		{getOf("/text?field", "x", strings.Repeat("x", 8<<10)), `200 "GET /text?field HTTP/3.0" localhost "-"`},
		{getOf("/text?field", "x", strings.Repeat("x", 8<<10+1)), `431 "GET /text?field HTTP/3.0" localhost "-"`},
		{getOf("/many", slices.Repeat([]string{"x", "y"}, 2000)...), `431 "GET /many HTTP/3.0" localhost "-"`},
	} {
		q := testkit.Value(s.dial(quic.Config{}))(t)
		response := s.send(q, c.sent)
		testkit.Equal(t, response != "", c.want[:3] != "400", c.want, "has a response")
		want = append(want, c.want+" h3 127.0.0.1")
		_ = q.CloseWithError(0, "")
	}
	s.run.Drain()
	<-s.ended
	b := testkit.Value(os.ReadFile(filepath.Join(s.dir, "access.log")))(t)
	got := strings.Split(strings.TrimSpace(string(b)), "\n")
	slices.Sort(got)
	slices.Sort(want)
	testkit.Equal(t, got, want)
}

// A request that is rejected on a connection that goes on is logged soon.
func TestRejectedRequestIsLoggedSoon(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	t.Parallel()
	s := serve(t, `log_format test '$status $request_uri'; server { listen ADDR quic; access_log DIR/access.log test;
		return 200 text; }`)
	q := testkit.Value(s.dial(quic.Config{}))(t)
	s.send(q, getOf("/bad", "Upper", "x"))
	for range 40 { // more than wait
		s.send(q, getOf("/bad", "upper", "\x00"))
		s.send(q, getOf("/good"))
	}
	testkit.WaitFor(s, "81 lines", func() bool {
		b, _ := os.ReadFile(filepath.Join(s.dir, "access.log"))
		return strings.Count(string(b), "400 /bad\n") == 41 && strings.Count(string(b), "200 /good\n") == 40
	})
	testkit.Check(t, q.Context().Err())
}
