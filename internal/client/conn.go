package client

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tarehq/tare/internal/client/h2"
	"github.com/tarehq/tare/internal/poll"
)

// conn is a connection of a pool, or a slot for one: the right to open a connection. Its states are
//
//	in use            a caller of get uses it
//	idle, unwatched   keep was called, and nothing watches it: it is in pool.unwatched
//	idle, watched     idle for watchDelay, and its end closes it at once: it is in pool.watched
//
// get puts an idle connection to use again. An idle connection is closed by idleTimeout, maxIdle,
// closeIdle or its peer. drop removes a connection from the pool.
type conn struct {
	net.Conn         // nil in a slot
	traffic  traffic // of its current use

	tlsState *tls.ConnectionState // of TLS with the server, or with a proxy that forwards requests
	tlsConn  *tls.Conn            // with the server or a proxy, else nil
	// the connection below the lowest TLS layer; nil if another package made that layer
	lowest *underTLS
	raw    *rawExchange // of a TCP or unix socket without TLS, else nil
	h2     *h2.Conn     // nil unless it speaks HTTP/2

	host   *host
	opened time.Time
	uses   int    // the number of uses that have ended
	probe  *probe // nil if the socket is unknown
	// the result of a Read by watchByRead. Until that is received, only Read may read.
	pending chan earlyRead

	// The pool's mu guards the fields below.
	idleIn    *list     // pool.unwatched, pool.watched, or nil while it is in use
	streams   int       // the number in use, if the connection speaks HTTP/2
	isRetired bool      // it accepts no more streams
	isOpening bool      // a slot that host.opening counts
	openErr   error     // why no connection could be opened; there is no slot
	idleSince time.Time // when it became idle
	nodes     [2]node
}

// earlyRead is the result of a Read by the goroutine that watches a connection.
type earlyRead struct {
	b   [1]byte
	n   int
	err error
}

// open turns a slot into a connection.
func (c *conn) open(nc net.Conn) {
	c.Conn, c.probe, c.opened = nc, newProbe(nc), time.Now()
}

// countUse counts a use that ends, and reports whether the connection must not be used again.
func (c *conn) countUse(l *limits) bool {
	c.uses++
	return l.maxUses > 0 && c.uses >= l.maxUses || l.maxAge > 0 && time.Since(c.opened) >= l.maxAge
}

// Close closes the connection.
func (c *conn) Close() error {
	if c.h2 != nil {
		c.h2.Close()
		return nil
	}
	return c.Conn.Close()
}

// keep ends the use of a connection that can be used again. It reports whether the pool keeps the
// connection; if not, keep closes it.
func (c *conn) keep() bool {
	surplus := c.host.pool.release(c, true)
	if surplus != nil {
		surplus.Close()
	}
	return surplus != c
}

// drop ends the use of a connection, and closes it, or returns a slot.
func (c *conn) drop() {
	if c.Conn != nil {
		c.Close()
	}
	c.host.pool.release(c, false)
}

// Read reads from the connection. Only the user of the connection may call it, and not
// concurrently.
func (c *conn) Read(p []byte) (int, error) {
	switch {
	case len(p) == 0, c.pending == nil && c.raw == nil:
		return c.Conn.Read(p)
	case c.pending == nil:
		return c.raw.receive(p)
	}
	e := <-c.pending
	c.pending = nil
	return copy(p, e.b[:e.n]), e.err
}

// hasInput reports whether a byte has arrived that no TLS layer has read, or the end, as far as is
// known without waiting. An idle connection with input cannot be used. Only the user of the
// connection may call it.
func (c *conn) hasInput() bool {
	return len(c.pending) > 0 || c.probe != nil && !c.probe.quiet()
}

// setTLS sets the TLS connection, which may run over TLS to a proxy.
func (c *conn) setTLS(tc *tls.Conn) {
	c.tlsConn = tc
	for tc != nil {
		c.lowest, _ = tc.NetConn().(*underTLS)
		if tc = nil; c.lowest != nil {
			tc, _ = c.lowest.Conn.(*tls.Conn)
		}
	}
}

// underTLS is the connection below a TLS layer.
type underTLS struct {
	net.Conn
	isBlocked bool // Read fails
}

func (b *underTLS) Read(p []byte) (int, error) {
	if b.isBlocked {
		return 0, os.ErrDeadlineExceeded // which is temporary for package tls: the TLS connection stays usable
	}
	return b.Conn.Read(p)
}

// NetConn returns the connection below.
func (b *underTLS) NetConn() net.Conn { return b.Conn }

// isDrained reports whether the TLS layers hold no unread bytes. TLS may receive more than its
// reader requested, and unrequested bytes may follow a response. With reads from the socket
// blocked, a Read through all layers must time out.
func (c *conn) isDrained() bool {
	if c.tlsConn == nil {
		return true
	}
	var b [1]byte
	n, isDrained := c.readUnread(b[:])
	return n == 0 && isDrained
}

// readUnread reads bytes that the TLS layers hold. isDrained reports that they held none.
func (c *conn) readUnread(p []byte) (n int, isDrained bool) {
	if c.lowest != nil {
		c.lowest.isBlocked = true
		defer func() { c.lowest.isBlocked = false }()
	} else {
		if c.tlsConn.SetReadDeadline(time.Unix(1, 0)) != nil {
			return 0, false
		}
		defer func() { _ = c.tlsConn.SetReadDeadline(time.Time{}) }()
	}
	n, err := c.tlsConn.Read(p)
	var late net.Error
	return n, errors.As(err, &late) && late.Timeout()
}

// probe checks a socket without reading from it.
type probe struct {
	raw      syscall.RawConn
	fd       int              // while the socket is watched
	peek     func(fd uintptr) // allocated once, not for each call
	wasQuiet bool             // result of peek: no byte has arrived, and no end
}

// newProbe returns a probe for the socket of a connection, which may be below TLS. It returns nil
// if the socket is unknown.
func newProbe(nc net.Conn) *probe {
	for {
		below, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		nc = below.NetConn()
	}
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	p := &probe{raw: raw}
	p.peek = func(fd uintptr) { p.wasQuiet = poll.Quiet(int(fd)) }
	return p
}

// quiet reports whether no byte has arrived on the socket, and its peer has not closed it.
func (p *probe) quiet() bool {
	return p.raw.Control(p.peek) == nil && p.wasQuiet
}

// traffic counts the bytes of one use of a connection. It lies in the connection, because it does
// not fit into the slab. Its fields are atomic: an exchange may end while its goroutines still send
// or receive. Each changes once for a system call.
type traffic struct {
	sent, received atomic.Int64
	hooks          Hooks // of the current use; nil without any
}

// write writes to the connection. It counts the bytes before it sends them: the server may respond,
// and so the exchange may end, before Write returns.
func (x *exchange) write(p []byte) (int, error) {
	sent := &x.conn.traffic.sent
	sent.Add(int64(len(p)))
	n, err := x.conn.Write(p)
	if n < len(p) {
		sent.Add(int64(n - len(p)))
	}
	return n, err
}

// reportEnd calls Hooks.Ended. unread is the number of received bytes that follow the response. The
// caller holds mu, so that Ended has returned when others find the exchange ended.
func (x *exchange) reportEnd(unread int) {
	t := &x.conn.traffic
	if h := t.hooks; h != nil {
		t.hooks = nil
		h.Ended(t.sent.Load(), t.received.Load()-int64(unread))
	}
}
