package netconn

import (
	"sync"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
)

// A departureWatch reads a connection while its handler runs, to detect that the client has closed
// it. Any bytes that it receives are the start of the next request and stay in the input buffer. It
// starts only when the handler uses its context, and never while the body can still be read.
type departureWatch struct {
	stopped  chan struct{} // closed when the goroutine no longer uses the buffer
	received int           // bytes; valid once stopped is closed

	mu       sync.Mutex // guards the read deadline while the goroutine runs
	stopping bool
}

// maxDeadlineRetries limits how many deadlines set by a handler a watch survives. A net.Conn could
// have a deadline of its own that always expires at once.
const maxDeadlineRetries = 100

func (c *Conn) WatchDeparture(x *exchange.Exchange) {
	w := &departureWatch{stopped: make(chan struct{})}
	c.watch = w
	// ReadTimeout and a handler's deadline limit reading the request, which is complete.
	_ = c.SetReadDeadline(time.Time{})
	room, nc := c.conn.Room(), c.NetConn
	go func() {
		defer close(w.stopped)
		for again := true; again; again = x.Extras != nil && w.received < len(room) {
			n, err := nc.Read(room[w.received:])
			for timeouts := 0; err != nil && n == 0 && exchange.IsTimeout(err) && timeouts < maxDeadlineRetries &&
				w.clearDeadline(c); timeouts++ {
				n, err = nc.Read(room[w.received:])
			}
			w.received += n
			x.Watched(room[:w.received], err != nil && !exchange.IsTimeout(err))
			if err != nil {
				return
			}
		}
	}()
}

// clearDeadline removes a deadline that the handler has set. It reports false if the watch is being
// stopped.
func (w *departureWatch) clearDeadline(c *Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.stopping && c.SetReadDeadline(time.Time{}) == nil
}

// StopWatch implements exchange.Connection. It keeps what the watch received. No other watch can
// start when it is called. The error that a net.Conn returns for a deadline in the past does not
// matter: no context is left that it could cancel.
func (c *Conn) StopWatch() {
	w := c.watch
	if w == nil {
		return
	}
	c.watch = nil
	w.mu.Lock()
	w.stopping = true
	_ = c.SetReadDeadline(exchange.PastTime())
	w.mu.Unlock()
	<-w.stopped
	c.conn.Received(w.received)
	_ = c.SetReadDeadline(time.Time{})
}
