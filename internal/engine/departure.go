package engine

import (
	"net"
	"sync"
	"time"
)

// A watch reads a connection while its handler runs, to learn that the client has
// gone. What it receives instead is the beginning of the next request and stays in
// the input buffer. It is started only when the handler shows interest in its
// context, and never while the body can still be read.
type watch struct {
	stopped chan struct{} // closed when the goroutine has left the buffer
	n       int           // bytes received; valid once stopped

	mu       sync.Mutex // guards the read deadline while the goroutine runs
	stopping bool
}

// maxTimeouts bounds how many deadlines of a handler a watch outlives: a net.Conn could have one of its own that
// always strikes at once.
const maxTimeouts = 100

// beginWatch implements link.
func (c *netConn) beginWatch(x *exchange) {
	records := x.fastCGI()
	if records != nil && records.beginWatch(c.conn) {
		x.abort()
		return
	}
	if c.end == len(c.in) {
		c.makeRoom()
	}
	w := &watch{stopped: make(chan struct{})}
	c.watching = w
	// ReadTimeout and a handler's deadline bound reading the request, which is done.
	_ = c.nc.SetReadDeadline(time.Time{})
	c.readDeadline = time.Time{}
	room, nc := c.in[c.end:], c.nc
	go func() {
		defer close(w.stopped)
		for again := true; again; again = records != nil && w.n < len(room) {
			n, err := nc.Read(room[w.n:])
			for timeouts := 0; err != nil && n == 0 && isTimeout(err) && timeouts < maxTimeouts && w.goesOn(nc); timeouts++ {
				n, err = nc.Read(room[w.n:])
			}
			switch {
			case records != nil && records.follow(room[w.n:w.n+n]):
				x.abort()
			case err != nil && !isTimeout(err):
				x.ctx.depart()
			}
			w.n += n
			if err != nil {
				return
			}
		}
	}()
}

// goesOn removes a deadline that the handler has set, unless the watch is being stopped.
func (w *watch) goesOn(nc net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.stopping && nc.SetReadDeadline(time.Time{}) == nil
}

// stop makes Read return: a deadline in the past does. Which error a net.Conn returns
// for that does not matter: nothing is left to be cancelled by it.
func (w *watch) stop(nc net.Conn) {
	w.mu.Lock()
	w.stopping = true
	_ = nc.SetReadDeadline(longAgo())
	w.mu.Unlock()
	<-w.stopped
}

// stopWatch implements link: it keeps what the watch received. It is called when no
// other can begin.
func (c *netConn) stopWatch() {
	w := c.watching
	if w == nil {
		return
	}
	c.watching = nil
	w.stop(c.nc)
	c.end += w.n
	_ = c.nc.SetReadDeadline(time.Time{})
	c.readDeadline = time.Time{}
}
