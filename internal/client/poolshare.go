package client

import (
	"net"
	"slices"
	"time"

	"github.com/tarehq/tare/internal/client/h2"
)

// Connections that speak HTTP/2 serve many requests at a time. Such a connection has one of these
// states:
//
//	shared    in use, and in host.shared: requests reserve streams of it
//	retired   in use, and accepts no more streams: it is closed after the last one
//	idle      without streams, in the lists of the pool
//
// Requests for a host that speaks HTTP/2 wait while a connection is being opened. They receive a
// stream of it, the error, or the slot to open the next one.

// takeStream reserves a stream of a shared connection, which it returns, or nil. isOnly means that
// no other connection can be opened. The caller holds mu.
func (h *host) takeStream(isOnly bool) *conn {
	for _, c := range h.shared {
		if c.h2.Reserve(isOnly) {
			h.use(c)
			return c
		}
	}
	return nil
}

// use counts a stream of a connection in h.shared. The caller holds mu.
func (h *host) use(c *conn) {
	c.streams++
	if c.countUse(&h.pool.limits) {
		h.retire(c)
	}
}

// share makes an idle connection shared, with a stream. It reports false if the connection accepts
// none. The caller holds mu.
func (h *host) share(c *conn) bool {
	if !c.h2.Reserve(false) {
		return false
	}
	h.shared = append(h.shared, c)
	h.use(c)
	return true
}

// retire makes a connection accept no more streams. The caller holds mu.
func (h *host) retire(c *conn) {
	c.isRetired = true
	h.unshare(c)
}

// unshare removes a connection from h.shared, if it is there. The caller holds mu.
func (h *host) unshare(c *conn) {
	if i := slices.Index(h.shared, c); i >= 0 {
		h.shared = slices.Delete(h.shared, i, i+1)
	}
}

// slot returns a slot. The caller holds mu.
func (h *host) slot() *conn {
	c := &conn{host: h, isOpening: h.isHTTP2}
	if c.isOpening {
		h.opening++
	}
	return c
}

// endOpening records that a slot was returned, or has a connection. The caller holds mu.
func (c *conn) endOpening() {
	if c.isOpening {
		c.isOpening = false
		c.host.opening--
	}
}

// serve gives connections and slots to waiting requests. The caller holds mu.
func (h *host) serve() {
	for len(h.waiting) > 0 {
		c := h.next()
		if c == nil {
			return
		}
		h.serveFirst(c)
	}
}

// serveFirst gives a connection or slot to the request that waits longest. The caller holds mu.
func (h *host) serveFirst(c *conn) {
	h.waiting[0] <- c
	h.waiting[0] = nil
	h.waiting = h.waiting[1:] // moving the rest would cost much if a thousand wait
}

// openHTTP2 turns a slot into a connection that speaks HTTP/2, with a stream. If another connection
// has a free stream by now, openHTTP2 returns that instead.
func (c *conn) openHTTP2(nc net.Conn, config *h2.Config) (other *conn) {
	p, h := c.host.pool, c.host
	p.mu.Lock()
	defer p.mu.Unlock()
	if other = h.takeStream(false); other != nil {
		return other
	}
	c.endOpening()
	h.isHTTP2 = true
	c.Conn, c.opened = nc, time.Now()
	maxStreams := uint32(h2.AssumedStreams)
	if len(h.shared) > 0 {
		maxStreams = h.shared[0].h2.MaxStreams()
	}
	c.h2 = h2.New(Direct(c.Conn), config, c, maxStreams)
	h.shared = append(h.shared, c)
	h.use(c)
	h.serve()
	return nil
}

// openedHTTP1 records that a slot has a connection that does not speak HTTP/2.
func (c *conn) openedHTTP1() {
	p, h := c.host.pool, c.host
	p.mu.Lock()
	defer p.mu.Unlock()
	c.endOpening()
	if h.isHTTP2 {
		h.isHTTP2 = p.limits.onlyHTTP2
		h.serve()
	}
}

// failToOpen returns the slot of a connection that could not be opened. Unless another connection
// may serve them, requests that wait for it fail for the same reason. err is nil if it concerns
// only the request that tried.
func (c *conn) failToOpen(err error) {
	p, h := c.host.pool, c.host
	p.mu.Lock()
	isAwaited := h.opening == 1 && len(h.shared) == 0 && p.limits.maxUses != 1
	if c.isOpening && err != nil && isAwaited {
		for len(h.waiting) > 0 {
			h.serveFirst(&conn{host: h, openErr: err})
		}
	}
	p.mu.Unlock()
	c.drop()
}

// StreamClosed implements h2.Host. The connection becomes idle, or is closed, after its last
// stream.
func (c *conn) StreamClosed() {
	p, h := c.host.pool, c.host
	p.mu.Lock()
	c.streams--
	h.serve()
	if c.streams > 0 {
		p.mu.Unlock()
		return
	}
	h.unshare(c)
	surplus := p.releaseLocked(c, !c.isRetired)
	p.mu.Unlock()
	if surplus != nil {
		surplus.Close()
	}
}

// Closing implements h2.Host.
func (c *conn) Closing() {
	p, h := c.host.pool, c.host
	p.mu.Lock()
	h.retire(c)
	h.serve()
	p.mu.Unlock()
	p.closeIfIdle(c)
}

// HasRoom implements h2.Host.
func (c *conn) HasRoom() {
	p := c.host.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	c.host.serve()
}
