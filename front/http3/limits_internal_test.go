package http3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	quicserver "github.com/tarehq/tare/front/internal/quic"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// echo is a handler whose response has what was sent so far.
func echo(w http.ResponseWriter, r *http.Request) {
	flush := http.NewResponseController(w).Flush
	_ = flush()
	var b [1]byte
	for {
		if _, err := io.ReadFull(r.Body, b[:]); err != nil {
			return
		}
		_, _ = w.Write(b[:])
		_ = flush()
	}
}

// start serves HTTP/3 without a front.
func start(t *testing.T, files quicserver.Files, conn *net.UDPConn) *socketServer {
	t.Helper()
	cert, key := tlstest.SelfSign(t, x509.Certificate{DNSNames: []string{"localhost"}})
	pair := testkit.Value(tls.X509KeyPair(cert, key))(t)
	l := &nginxconf.Listener{HTTP3Streams: 10, HTTP3Window: 64 << 10, HeaderBytes: 32 << 10, IdleTimeout: time.Minute}
	config := quicserver.Config{
		Conn: conn, Handler: http.HandlerFunc(echo), ErrorLog: log.New(io.Discard, "", 0),
		TLS:   &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h3"}},
		Files: files, Listener: l, ListenerAt: func(net.Addr) *nginxconf.Listener { return l },
	}
	s := testkit.Value(serve(config))(t)
	s.Replace(config, 0)
	t.Cleanup(func() { s.Close() })
	return s.(*socketServer)
}

func listenUDP(t *testing.T) *net.UDPConn {
	t.Helper()
	return testkit.Value(net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
}

func dial(t *testing.T, to net.Addr) (*quic.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := quic.DialAddr(ctx, to.String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}}, nil)
	if err == nil {
		t.Cleanup(func() { _ = c.CloseWithError(0, "") })
	}
	return c, err
}

// Connections are limited, and a connection that ends makes room for another one.
func TestConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	s := start(t, nil, listenUDP(t))
	s.counted.Store(maxConnections - 1)
	first := testkit.Value(dial(t, s.conn.LocalAddr()))(t)
	_, err := dial(t, s.conn.LocalAddr())
	if e, ok := errors.AsType[*quic.TransportError](err); !ok || e.ErrorCode != quic.ConnectionRefused {
		t.Errorf("one connection too many: %v", err)
	}
	_ = first.CloseWithError(0, "")
	testkit.WaitFor(t, "the end of a connection", func() bool {
		_, err := dial(t, s.conn.LocalAddr())
		return err == nil
	})
}

// With many handshakes in progress clients must prove their address.
func TestManyHandshakesRequireProof(t *testing.T) {
	t.Parallel()
	s := start(t, nil, listenUDP(t))
	for _, want := range []bool{false, true} {
		testkit.Equal(t, s.mustVerify(nil), want, s.counted.Load(), "handshakes require proof")
		s.counted.Add(maxUnverified)
	}
}

// post sends a request whose response is an echo.
func post(t *testing.T, c *http3.Transport, addr string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+addr, strings.NewReader("text"))
	testkit.Must(t, err)
	resp := testkit.Value(c.RoundTrip(req))(t)
	resp.Body.Close()
}

// one returns the only connection of a server.
func (s *socketServer) one(t *testing.T) (c *connection) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	testkit.Equal(t, len(s.open), 1, "connections")
	for c = range s.open {
	}
	return c
}

// idleState is a part of a connection's state.
type idleState struct {
	requests            int
	isRetired, isClosed bool
}

// state returns the state. If expires is set, the idle time ends then.
func (c *connection) state(expires bool) idleState {
	c.mu.Lock()
	defer c.mu.Unlock()
	if expires {
		c.idleEnd = time.Now()
	}
	return idleState{c.requests, c.isRetired, c.isClosed}
}

// The end of the idle time retires a connection: a request that is on its way is not lost. It does
// nothing if a request has begun, or has just ended.
func TestIdleConnectionIsRetiredFirst(t *testing.T) {
	t.Parallel()
	s := start(t, nil, listenUDP(t))
	client := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer client.Close()
	addr := s.conn.LocalAddr().String()
	post(t, client, addr)
	c := s.one(t)
	testkit.WaitFor(t, "the end of the request", func() bool { return c.state(false).requests == 0 })
	c.endIdle()
	testkit.Equal(t, c.state(true), idleState{}, "when a request has just ended")
	if !c.begin() {
		t.Fatal("a request is rejected")
	}
	c.endIdle()
	testkit.Equal(t, c.state(false), idleState{requests: 1}, "during a request")
	c.end()
	c.state(true)
	c.endIdle()
	testkit.Equal(t, c.state(false), idleState{isRetired: true}, "of an idle connection")
	testkit.Receive(t, c.quic.Context().Done(), "the end of the retired connection")
	post(t, client, addr)
}
