package engine_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/testkit"
)

// mustBeSmall fails the test if connections that open makes, and that wait, take more than a limit of
// bytes each, or goroutines. The bytes include the client's socket, which is of package net.
func mustBeSmall(t *testing.T, limit int64, open func()) {
	t.Helper()
	const n = 400
	many := func(n int) uint64 {
		for range n {
			open()
		}
		inUse() // twice, because of what pools hold
		return inUse()
	}
	before, goroutines := many(50), runtime.NumGoroutine()
	each := int64(many(n)-before) / n
	if t.Logf("%d bytes each", each); each > limit {
		t.Errorf("%d bytes each, want at most %d", each, limit)
	}
	if more := runtime.NumGoroutine() - goroutines; more > n/10 {
		t.Errorf("%d more goroutines", more)
	}
}

// An idle TLS connection holds neither a goroutine nor a buffer beyond those of package tls.
func TestIdleTLSConnectionsAreSmall(t *testing.T) {
	testkit.Long(t, "it opens many connections")
	testkit.NoRace(t, "it uses memory of its own")
	someModes(t, handle(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "done.") }), func(s *site) {
		mustBeSmall(s.T, 8<<10, func() {
			c, err := s.dial() // the client keeps only the socket
			testkit.Must(s, err)
			io.WriteString(c, get)
			readResponses(s.T, c, 1)
			raw := c.(*tls.Conn).NetConn()
			s.Cleanup(func() { raw.Close() })
		})
	}, "ServeTLS")
}

// An idle HTTP/2 connection over TLS holds little more: the session, and the fields that the client
// has put into the table of HPACK.
func TestIdleHTTP2ConnectionsAreSmall(t *testing.T) {
	testkit.Long(t, "it opens many connections")
	testkit.NoRace(t, "it uses memory of its own")
	s := newHTTP2Site(t, "on loop", "h2-tls-shard", &http.Server{Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "done.") })})
	mustBeSmall(t, 10<<10, func() {
		nc, err := s.dial()
		testkit.Must(s, err)
		raw := nc.(*tls.Conn).NetConn()
		s.Cleanup(func() { raw.Close() })
		c := newRawHTTP2(s.T, nc)
		c.request(1, true, ":method", "GET", ":scheme", "https", ":authority", "a.test", ":path", "/some/path",
			"user-agent", "a program", "accept-encoding", "gzip", "x-session", "some value of the session")
		c.send()
		c.awaitFrame(func(f http2.Frame) bool {
			return f.Header().StreamID == 1 && f.Header().Flags.Has(http2.FlagDataEndStream)
		})
	})
}

// The server acknowledges the client's last message of a TLS handshake at once, to which it sends
// nothing: a client that uses Nagle's algorithm waits for that before it sends its request. The
// kernel reports whether it would have delayed this acknowledgment.
func TestHandshakesAreAcknowledgedAtOnce(t *testing.T) {
	someModes(t, handle(func(w http.ResponseWriter, _ *http.Request) {
		nc, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		raw, err := nc.(*tls.Conn).NetConn().(syscall.Conn).SyscallConn()
		if err != nil {
			t.Error(err)
			return
		}
		var quick int
		_ = raw.Control(func(fd uintptr) {
			quick, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK)
		})
		fmt.Fprint(nc, quick, err)
	}), func(s *site) {
		c := s.connect()
		io.WriteString(c, get)
		if b, err := io.ReadAll(c); !strings.HasPrefix(string(b), "1 <nil>") {
			s.Errorf("%q, %v", b, err)
		}
	}, "tls", "ServeTLS")
}
