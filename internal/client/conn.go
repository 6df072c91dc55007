package client

import (
	"net"
	"time"

	"github.com/tarehq/tare/internal/client/h2"
)

// conn is a connection of a pool, or a slot for one: the right to open a connection. Its states are
//
//	inUse           a caller of get uses it
//	idleUnwatched   keep was called: it is idle, and nothing watches it
//	idleWatched     it has been idle for watchDelay, and its end closes it at once
//
// get moves an idle connection back to inUse. An idle connection is closed by idleTimeout, maxIdle,
// closeIdle or its peer. drop and detach remove a connection from the pool.
type conn struct {
	net.Conn          // nil in a slot
	info     connInfo // of TLS and the socket
	traffic  traffic  // of its current use
	h2       *h2.Conn // nil unless it speaks HTTP/2; then Conn and info are unused

	host    *host
	opened  time.Time
	uses    int            // the number of uses that have ended
	probe   *probe         // nil if the socket is unknown
	pending chan earlyRead // the result of a Read by watchByRead

	// The pool's mu guards the fields below.
	state     state
	streams   int       // the number in use, if the connection speaks HTTP/2
	isRetired bool      // it accepts no more streams
	isOpening bool      // a slot that host.opening counts
	openErr   error     // why no connection could be opened; there is no slot
	idleSince time.Time // when it became idle
	nodes     [2]node
}

// state is the state of a connection. See conn.
type state uint8

const (
	inUse state = iota
	idleUnwatched
	idleWatched
)

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
	return c.closeReleased(c.host.pool.release(c, true))
}

// closeReleased closes what must be closed after a release, and reports whether c is kept.
func (c *conn) closeReleased(isKept bool, evicted *conn) bool {
	if !isKept {
		c.Close()
	}
	if evicted != nil {
		evicted.Close()
	}
	return isKept
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
	case len(p) == 0, c.pending == nil && c.info.raw == nil:
		return c.Conn.Read(p)
	case c.pending == nil:
		return c.info.raw.receive(p)
	}
	e := <-c.pending
	c.pending = nil
	return copy(p, e.b[:e.n]), e.err
}

// hasReader reports whether a goroutine that watched the connection still reads from it. Then the
// connection must be read by Read only, and not by its socket. The first byte of a response ends
// that.
func (c *conn) hasReader() bool { return c.pending != nil }

// hasInput reports whether a byte has arrived that no TLS layer has read, or the end, as far as is
// known without waiting. An idle connection with input cannot be used. Only the user of the
// connection may call it.
func (c *conn) hasInput() bool {
	return len(c.pending) > 0 || c.probe != nil && !c.probe.quiet()
}

// detach ends the use of a connection without closing it. From then on it belongs to the caller.
func (c *conn) detach() { c.host.pool.release(c, false) }

var _ net.Conn = (*conn)(nil)
