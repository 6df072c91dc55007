package engine_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"runtime"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/testkit"
)

// An idle TLS connection holds neither a goroutine nor a buffer beyond those of package tls. The
// limit includes the client's socket, which is of package net.
func TestIdleTLSConnectionsAreSmall(t *testing.T) {
	testkit.Long(t, "it opens many connections")
	testkit.NoRace(t, "it uses memory of its own")
	const n, limit = 400, 8 << 10
	someModes(t, handle(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "done.") }), func(s *site) {
		open := func(n int) {
			for range n {
				c, err := s.dial()
				testkit.Must(s, err)
				io.WriteString(c, get)
				readResponses(s.T, c, 1)
				raw := c.(*tls.Conn).NetConn()
				s.Cleanup(func() { raw.Close() })
			}
		}
		open(50)
		inUse() // twice, because of what pools hold
		before, goroutines := inUse(), runtime.NumGoroutine()
		open(n)
		inUse()
		after := inUse()
		if each := int64(after-before) / n; each > limit {
			s.Errorf("%d bytes each, want at most %d", each, limit)
		} else {
			s.Logf("%d bytes each", each)
		}
		if more := runtime.NumGoroutine() - goroutines; more > n/10 {
			s.Errorf("%d more goroutines", more)
		}
	}, "ServeTLS")
}

// An idle HTTP/2 connection over TLS holds little more: the session, and the fields that the client
// has put into the table of HPACK.
func TestIdleHTTP2ConnectionsAreSmall(t *testing.T) {
	testkit.Long(t, "it opens many connections")
	testkit.NoRace(t, "it uses memory of its own")
	const n, limit = 400, 10 << 10
	s := newHTTP2Site(t, "on loop", "h2-tls-shard", &http.Server{Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "done.") })})
	open := func(n int) {
		for range n {
			nc, err := s.dial() // the client keeps only the socket
			testkit.Must(s, err)
			raw := nc.(*tls.Conn).NetConn()
			s.Cleanup(func() { raw.Close() })
			c := newRawHTTP2(s.T, nc)
			c.request(1, true, ":method", "GET", ":scheme", "https", ":authority", "a.test", ":path", "/some/path",
				"user-agent", "a program", "accept-encoding", "gzip", "x-session", "some value of the session")
			c.send()
			for ended := false; !ended; {
				f, err := c.ReadFrame()
				testkit.Must(s, err)
				ended = f.Header().StreamID == 1 && f.Header().Flags.Has(http2.FlagDataEndStream)
			}
		}
	}
	open(50)
	inUse() // twice, because of what pools hold
	before, goroutines := inUse(), runtime.NumGoroutine()
	open(n)
	inUse()
	after := inUse()
	each := int64(after-before) / n
	if s.Logf("%d bytes each", each); each > limit {
		s.Errorf("%d bytes each, want at most %d", each, limit)
	}
	if more := runtime.NumGoroutine() - goroutines; more > n/10 {
		s.Errorf("%d more goroutines", more)
	}
}
