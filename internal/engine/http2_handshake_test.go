package engine_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/testkit"
)

// stalledHandshakes are what clients send that do not finish their handshakes, by the part of their
// first message that it is.
func stalledHandshakes() map[string]func(hello []byte, i int) []byte {
	return map[string]func(hello []byte, i int) []byte{
		"nothing":         func([]byte, int) []byte { return nil },
		"first byte":      func(hello []byte, _ int) []byte { return hello[:1] },
		"part of message": func(hello []byte, i int) []byte { return hello[:1+i%(len(hello)-1)] },
		"whole message":   func(hello []byte, _ int) []byte { return hello },
		"long record":     func([]byte, int) []byte { return []byte{22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc} },
	}
}

// Clients that begin a handshake and stop hold little memory, and new clients are served meanwhile.
// The memory is measured in the slow form.
func TestHTTP2StalledHandshakesHoldLittleMemory(t *testing.T) {
	for name, part := range stalledHandshakes() {
		t.Run(name, func(t *testing.T) {
			s, n := newTarget(t, "tare", "h2-tls-shard"), fewHandshakes
			if testkit.Slow() {
				n = manyHostileConns
				if testkit.Race {
					n /= raceSlowdown
				}
			}
			s.stallHandshakes(n, part)
			if testkit.Slow() {
				s.wantMemory(n, handshakeMemory)
			}
		})
	}
}

// handshakeMemory is how much memory a connection may take whose handshake has not begun. What
// those hold that have begun is limited by their number.
const handshakeMemory = 4 << 10

// stallHandshakes opens n connections that send a part of the first message. Then another client,
// whose connection is new, must receive responses.
func (s *targetSite) stallHandshakes(n int, part func(hello []byte, i int) []byte) {
	s.Helper()
	s.client.CloseIdleConnections()
	hello := clientHello(s.T)
	conns := make([]net.Conn, n)
	var clients sync.WaitGroup
	for first := range stallingClients {
		clients.Go(func() {
			for i := first; i < n; i += stallingClients {
				c, err := s.client.Transport.(*http.Transport).DialContext(s.Context(), "tcp", "")
				if err != nil {
					s.Error(err)
					return
				}
				conns[i] = c
				_, _ = c.Write(part(hello, i)) // the server may have ended it in favor of newer ones
			}
		})
	}
	clients.Wait()
	for range 20 {
		s.client.CloseIdleConnections()
		if got := s.get("/"); got != "hello" {
			s.Errorf("another client has received %q", got)
		}
	}
	for _, c := range conns {
		if c != nil {
			c.Close()
		}
	}
	testkit.WaitFor(s.T, "all connections to close", func() bool { return s.state().open == 1 })
}

// fewHandshakes is how many handshakes stall in the quick form.
const fewHandshakes = 20

// stallingClients is how many goroutines connect.
const stallingClients = 8

// clientHello returns a client's first message.
func clientHello(t *testing.T) []byte {
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		_ = tls.Client(client, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}).Handshake()
		client.Close()
	}()
	b := make([]byte, 16<<10)
	n, err := io.ReadAtLeast(server, b, 5)
	testkit.Must(t, err)
	return b[:n]
}

// A connection whose cipher suite RFC 9113 prohibits for HTTP/2 is rejected, unless the settings
// permit it, on the goroutine path and on shards.
func TestHTTP2IsRejectedOverProhibitedCiphers(t *testing.T) {
	for _, mode := range []string{"h2-tls-goroutine", "h2-tls-shard"} {
		for _, permits := range []bool{false, true} {
			set := &http.Server{HTTP2: &http.HTTP2Config{PermitProhibitedCipherSuites: permits}}
			s := newHTTP2Site(t, "tare", mode, set)
			transport := s.client.Transport.(*http.Transport)
			plain, err := transport.DialContext(t.Context(), "tcp", "")
			testkit.Must(t, err)
			tc := tls.Client(plain, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12,
				NextProtos: []string{"h2"}, CipherSuites: prohibitedCiphers()})
			defer tc.Close()
			if got := firstError(t, tc); (got == http2.ErrCodeInadequateSecurity) == permits {
				t.Errorf("%s, permits %v: %v", mode, permits, got)
			}
		}
	}
}

func prohibitedCiphers() []uint16 {
	return []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}
}

// firstError returns the code of the GOAWAY frame among the first two frames that the server sends,
// or NO_ERROR if there is none. A server that accepts the connection sends WINDOW_UPDATE second.
func firstError(t *testing.T, c net.Conn) http2.ErrCode {
	framer := http2.NewFramer(io.Discard, c)
	for range 2 {
		f, err := framer.ReadFrame()
		testkit.Must(t, err)
		if f, ok := f.(*http2.GoAwayFrame); ok {
			return f.ErrCode
		}
	}
	return http2.ErrCodeNo
}
