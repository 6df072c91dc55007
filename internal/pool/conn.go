package pool

import (
	"net"
	"time"
)

// Conn is a connection of a Pool, or a slot for one: the right to open a connection. Its states are
//
//	inUse           a caller of Get uses it
//	idleUnwatched   Keep was called: it is idle, and nothing watches it
//	idleWatched     it has been idle for watchDelay, and its end closes it at once
//
// Get moves an idle connection back to inUse. An idle connection is closed by IdleTimeout, MaxIdle,
// CloseIdle or its peer. Drop and Detach remove a connection from the Pool.
type Conn[K comparable, T any] struct {
	net.Conn      // nil in a slot
	Value    T    // for the owner of the Pool
	Reused   bool // it was idle before

	host    *host[K, T]
	opened  time.Time      // set if there is a MaxAge
	uses    int            // the number of uses that have ended
	probe   *probe         // nil if the socket is unknown
	pending chan earlyRead // receives what a goroutine has read that watches the connection

	// The pool's mu guards the fields below.
	state     state
	idleSince monotime // when it became idle
	nodes     [2]node[K, T]
}

// state is the state of a connection. See Conn.
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

// Open turns a slot into a connection.
func (c *Conn[K, T]) Open(nc net.Conn) {
	c.Conn, c.probe = nc, newProbe(nc)
	if c.host.pool.Limits.MaxAge > 0 {
		c.opened = time.Now()
	}
}

// countUse counts a use that ends, and reports whether the connection must not be used again.
func (c *Conn[K, T]) countUse(l *Limits) bool {
	c.uses++
	return l.MaxUses > 0 && c.uses >= l.MaxUses || l.MaxAge > 0 && time.Since(c.opened) >= l.MaxAge
}

// Keep ends the use of a connection that can be used again. It reports whether the Pool keeps the
// connection; if not, Keep closes it.
func (c *Conn[K, T]) Keep() bool {
	isKept, evicted := c.host.pool.release(c, true)
	if !isKept {
		c.Close()
	}
	if evicted != nil {
		evicted.Close()
	}
	return isKept
}

// Drop ends the use of a connection, and closes it, or returns a slot.
func (c *Conn[K, T]) Drop() {
	if c.Conn != nil {
		c.Close()
	}
	c.host.pool.release(c, false)
}

// Read reads from the connection. Only the user of the connection may call it, and not
// concurrently.
func (c *Conn[K, T]) Read(p []byte) (int, error) {
	if c.pending == nil || len(p) == 0 {
		return c.Conn.Read(p)
	}
	e := <-c.pending
	c.pending = nil
	return copy(p, e.b[:e.n]), e.err
}

// HasReader reports whether a goroutine that watched the connection still reads from it. Then the
// connection must be read by Read only, and not by its socket.
func (c *Conn[K, T]) HasReader() bool { return c.pending != nil }

// IdleFor returns how long the connection was idle before its current use.
func (c *Conn[K, T]) IdleFor() time.Duration {
	if !c.Reused {
		return 0
	}
	return time.Duration(c.host.pool.now() - c.idleSince)
}

// Alive reports whether an idle connection can be used: its peer has not closed it, as far as is
// known without waiting, and no byte has arrived on it.
func (c *Conn[K, T]) Alive() bool {
	if c.probe != nil && !c.probe.quiet() {
		return false
	}
	return len(c.pending) == 0
}

// Detach ends the use of a connection without closing it. From then on it belongs to the caller.
func (c *Conn[K, T]) Detach() { c.host.pool.release(c, false) }
