package netconn

import (
	"bytes"
	"net"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/engine/h2"
)

// handOffToHTTP2 hands the connection to the inner server, which then calls the ConnState hook.
func (c *Conn) handOffToHTTP2() {
	if !c.claimNew() {
		return
	}
	nc := c.NetConn
	if c.conn.Next < c.conn.End {
		nc = &PrereadConn{nc, bytes.Clone(c.conn.In[c.conn.Next:c.conn.End])}
	}
	c.conn.SetReadDeadline(time.Time{})
	if !c.config.Owner.ServeHTTP2(nc, connection.With(c.ctx, &http2Conn{opened: c.opened})) {
		return
	}
	c.handedOff = true
	c.conn.ReleaseBuffer()
	c.config.Owner.MoveToHTTP2(c)
}

// hasPreface reports whether the client sends HTTP/2's preface first. It waits for as many bytes as
// it needs, at most for the head's timeout, and consumes nothing.
func (c *Conn) hasPreface() bool {
	c.conn.SetReadDeadline(c.opened.Add(c.config.Exchanges.HeadTimeout))
	for {
		whole, partly := h2.BeginsPreface(c.conn.In[c.conn.Next:c.conn.End])
		if !partly {
			return whole
		}
		if c.conn.Fill() != nil {
			return false
		}
	}
}

// http2Conn is the connection.Info of a connection of the inner server.
type http2Conn struct {
	opened   time.Time
	requests atomic.Int64
	number   connection.Number
}

// Opened implements connection.Info.
func (c *http2Conn) Opened() time.Time { return c.opened }

// CountRequest implements connection.Info.
func (c *http2Conn) CountRequest() int { return int(c.requests.Add(1)) }

// Number implements connection.Info.
func (c *http2Conn) Number(counter *atomic.Int64) int64 { return c.number.Of(counter) }

// PrereadConn is a connection whose first bytes have been read. Read returns them again.
type PrereadConn struct {
	net.Conn
	unread []byte
}

func (c *PrereadConn) Read(p []byte) (int, error) {
	if len(c.unread) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}
