package engine

import (
	"context"
	"time"
)

// A watch reads a connection while its handler runs, to learn that the client has
// gone. What it receives instead is the beginning of the next request and stays in
// the input buffer. It is started only when the handler shows interest in its
// context, and never while the body can still be read.
type watch struct {
	stopped chan struct{} // closed when the goroutine has left the buffer
	n       int           // bytes received; valid once stopped
}

// beginWatch implements link.
func (c *netConn) beginWatch(x *exchange) {
	records := x.fastCGI()
	if records != nil && records.beginWatch(c.conn) {
		x.ctx.cancel(context.Canceled)
		return
	}
	if c.end == len(c.in) {
		c.makeRoom()
	}
	if !x.resp.marks.has(ownDeadlines) {
		c.setReadDeadline(time.Time{}) // ReadTimeout bounds reading the request, which is done
	}
	w := &watch{stopped: make(chan struct{})}
	c.watching = w
	room := c.in[c.end:]
	go func() {
		defer close(w.stopped)
		for again := true; again; again = records != nil && w.n < len(room) {
			n, err := c.nc.Read(room[w.n:])
			if err != nil && !isTimeout(err) || records != nil && records.follow(room[w.n:w.n+n]) {
				x.ctx.cancel(context.Canceled)
			}
			w.n += n
			if err != nil {
				return
			}
		}
	}()
}

// stopWatch implements link: it keeps what the watch received. It is called when no
// other can begin.
func (c *netConn) stopWatch() {
	w := c.watching
	if w == nil {
		return
	}
	c.watching = nil
	// A deadline in the past makes Read return. Which error a net.Conn returns
	// for that does not matter: nothing is left to be cancelled by it.
	_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	<-w.stopped
	c.end += w.n
	_ = c.nc.SetReadDeadline(time.Time{})
	c.readDeadline = time.Time{}
}
