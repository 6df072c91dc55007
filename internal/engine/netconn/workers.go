package netconn

import (
	"runtime"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/h2"
	"github.com/tarehq/tare/internal/engine/reuse"
)

// A worker whose connection has ended serves another. For connections of one request this halves
// the cost of a connection.

// maxStarting is how many connections may wait for their workers to start if there are several
// processors. If the one that accepts waited for each, they would take turns: 16 instead of one
// save a third of the time of connections that arrive faster than they are served.
const maxStarting = 16

// Start prepares p for its first connection.
func (p *Config) Start() {
	p.conns = exchange.NewConns(p.Exchanges, inSize, false)
	p.starting = make(chan struct{}, maxStarting)
	if runtime.GOMAXPROCS(0) == 1 {
		p.starting = make(chan struct{})
	}
	p.workers = reuse.NewWorkers(func(_ *struct{}, c *Conn) time.Time {
		<-p.starting
		c.borrow()
		c.serve()
		c.giveBack()
		return time.Now()
	})
	p.streams = reuse.NewWorkers(func(_ *struct{}, st *h2.Stream) time.Time {
		st.Run(nil, 0)
		st.Settle()
		return time.Now()
	})
}

// Serve makes a worker serve c. It blocks while more than maxStarting connections wait for their
// workers to start, or more than one with a single processor. If it went on accepting, a burst of
// clients would need a worker for each, although few suffice when each is soon free again.
func (c *Conn) Serve() {
	c.config.workers.Run(c)
	c.config.starting <- struct{}{}
}

// Stop ends the free workers now, and the others when their connections have ended.
func (p *Config) Stop() {
	p.workers.Stop()
	p.streams.Stop()
}
