package pool

import (
	"net"
	"time"
)

// Conn is a connection of a Pool, or a place for one.
type Conn[K comparable, T any] struct {
	net.Conn      // nil in a place
	Value    T    // the owner's
	Reused   bool // it was idle before

	host    *host[K, T]
	opened  time.Time      // if its age is bounded
	uses    int            // those that have ended
	probe   *probe         // nil: its socket is not known
	pending chan earlyRead // where the goroutine that watches it puts what it reads

	// The pool's mu guards the rest.
	state     state
	idleSince monotime // when it became idle
	nodes     [2]node[K, T]
}

type state uint8

const (
	inUse         state = iota
	idleUnwatched       // idle, and not watched
	idleWatched         // idle and watched
)

// early is what was read before anybody waited for it.
type earlyRead struct {
	b   [1]byte
	n   int
	err error
}

// Open makes a place a connection.
func (c *Conn[K, T]) Open(nc net.Conn) {
	c.Conn, c.probe = nc, newProbe(nc)
	if c.host.pool.Limits.MaxAge > 0 {
		c.opened = time.Now()
	}
}

// worn reports whether a connection whose use ends is not to be used again.
func (c *Conn[K, T]) countUse(l *Limits) bool {
	c.uses++
	return l.MaxUses > 0 && c.uses >= l.MaxUses || l.MaxAge > 0 && time.Since(c.opened) >= l.MaxAge
}

// Keep ends the use of a connection that can be used again, and reports whether it is kept for
// that.
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

// Drop ends the use of a connection, which it closes, or of a place.
func (c *Conn[K, T]) Drop() {
	if c.Conn != nil {
		c.Close()
	}
	c.host.pool.release(c, false)
}

// Read reads from the connection. Whoever has it calls it, one at a time.
func (c *Conn[K, T]) Read(p []byte) (int, error) {
	if c.pending == nil || len(p) == 0 {
		return c.Conn.Read(p)
	}
	e := <-c.pending
	c.pending = nil
	return copy(p, e.b[:e.n]), e.err
}

// Listened reports whether a goroutine that watched the connection still reads from it. Then Read
// alone may.
func (c *Conn[K, T]) HasReader() bool { return c.pending != nil }

// IdleFor returns how long the connection was idle before it was taken.
func (c *Conn[K, T]) IdleFor() time.Duration {
	if !c.Reused {
		return 0
	}
	return time.Duration(c.host.pool.now() - c.idleSince)
}

// Alive reports whether a connection that was idle has not been closed by its peer, as far as
// can be told at once. Nothing may have arrived on it either.
func (c *Conn[K, T]) Alive() bool {
	if c.probe != nil && !c.probe.quiet() {
		return false
	}
	return len(c.pending) == 0
}

// Detach ends the use of a connection, which from now on is the caller's alone.
func (c *Conn[K, T]) Detach() { c.host.pool.release(c, false) }
