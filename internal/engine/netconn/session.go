package netconn

import (
	"crypto/tls"
	"math"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/h2"
)

// hasPreface reports whether the client sends HTTP/2's preface first. It waits for as many bytes as
// it needs, at most for the head's timeout, and consumes nothing. Like net/http's, no Read of a
// program's own connection passes the preface's end. It may look for the preface, too: Caddy's do,
// and fail if a Read returns more.
func (c *Conn) hasPreface() bool {
	_ = c.SetReadDeadline(c.opened.Add(c.config.Exchanges.HeadTimeout))
	for {
		room := c.conn.Room()
		in := c.conn.Input()
		whole, partly := h2.BeginsPreface(in)
		if !partly {
			return whole
		}
		if _, isSocket := c.NetConn.(syscall.Conn); !isSocket {
			room = room[:h2.PrefaceSize-len(in)]
		}
		n, _ := c.NetConn.Read(room)
		if c.conn.Received(n); n == 0 {
			return false
		}
	}
}

// serveHTTP2 serves HTTP/2 to the connection's end. state is nil without TLS.
func (c *Conn) serveHTTP2(state *tls.ConnectionState) {
	if !c.ClaimNew() {
		return // Shutdown closes it
	}
	if state != nil && !AllowsHTTP2(c.config.HTTP2, state) {
		_, _ = c.NetConn.Write(h2.Rejection())
		return
	}
	h := &http2Carrier{conn: c}
	h.session = h2.New(c.config.HTTP2, h, c, c.conn.Template.RemoteAddr, state)
	c.session.Store(h.session)
	c.CallStateHook(http.StateActive)
	h.Update()
	defer h.session.Closed()
	h.serve()
}

// AllowsHTTP2 reports whether a TLS connection may carry HTTP/2 (RFC 9113, 9.2). Of the cipher
// suites before TLS 1.3, only those with ephemeral keys and authenticated encryption may, unless
// the settings permit all.
func AllowsHTTP2(config *h2.Config, state *tls.ConnectionState) bool {
	if config.PermitsProhibitedCiphers || state.Version > tls.VersionTLS12 {
		return true
	}
	name := tls.CipherSuiteName(state.CipherSuite)
	isAuthenticated := strings.Contains(name, "_GCM_") || strings.Contains(name, "_CHACHA20_")
	return isAuthenticated && strings.HasPrefix(name, "TLS_ECDHE_")
}

// http2Carrier is the h2.Carrier of a Conn. The connection's goroutine only reads and parses. Each
// handler has a goroutine of its own, and so has the sender while there is output.
type http2Carrier struct {
	conn    *Conn
	session *h2.Session
	mu      sync.Mutex // held while the connection's state and deadline follow the session's
}

// serve reads to the connection's end.
func (h *http2Carrier) serve() {
	c, s := h.conn, h.session
	received := c.conn.Input()
	c.conn.Consume(len(received))
	for {
		isOpen := s.Receive(received)
		if h.Update(); isOpen {
			for st := s.Next(); st != nil; st = s.Next() {
				c.config.streams.Run(st)
			}
		}
		s.Flush()
		room := c.conn.Room()
		n, ok := h.read(room)
		if !ok {
			return
		}
		received = room[:n]
	}
}

// read waits for input. ok is false if the connection has ended or must end.
func (h *http2Carrier) read(p []byte) (n int, ok bool) {
	for {
		n, err := h.conn.NetConn.Read(p)
		switch {
		case n > 0:
			return n, true
		case err == nil:
			continue
		case !exchange.IsTimeout(err):
			return 0, false
		}
		_ = h.conn.SetReadDeadline(time.Time{})
		if h.session.Expire() {
			return 0, false
		}
		h.Update()
	}
}

func (h *http2Carrier) Send(p []byte) (int, error) {
	return len(p), h.conn.Send(p, h.session.SendLimit())
}

// Update implements h2.Carrier. A deadline that is too early is corrected when it expires.
func (h *http2Carrier) Update() {
	h.mu.Lock()
	defer h.mu.Unlock()
	from, to := http.StateIdle, http.StateActive
	if h.session.IsIdle() {
		from, to = to, from
	}
	if h.conn.state.move(from, to) {
		h.conn.CallStateHook(to)
	}
	if at := h.session.WaitDeadline(); !at.IsZero() {
		_ = h.conn.extendReadDeadline(at, math.MaxInt64)
	}
}

// End implements h2.Carrier. The goroutine that reads closes the connection when the client has, or
// after a delay: closing at once could reset it before the client has read the last frames.
func (h *http2Carrier) End(isClean bool) {
	go func() { // both may block on a TLS connection
		if isClean && h.conn.CloseWrite() == nil {
			h.Update()
			return
		}
		_ = h.conn.SetReadDeadline(exchange.PastTime())
		h.conn.NetConn.Close()
	}()
}
