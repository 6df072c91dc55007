package netconn

import (
	"runtime"
	"time"

	"github.com/tarehq/tare/internal/engine/h2"
	"github.com/tarehq/tare/internal/engine/reuse"
)

// Workers are the goroutines that serve a listener's connections on the goroutine path. A worker
// whose connection has ended serves another. For connections of one request this halves the cost of
// a connection.
type Workers struct {
	goroutines *reuse.Workers[struct{}, *Conn]
	// Serve sends one for each connection; its worker receives it when it starts
	starting chan struct{}
}

// maxStarting is how many connections may wait for their workers to start if there are several
// processors. If the one that accepts waited for each, they would take turns: 16 instead of one
// save a third of the time of connections that arrive faster than they are served.
const maxStarting = 16

// NewWorkers returns workers without a goroutine.
func NewWorkers() *Workers {
	s := &Workers{starting: make(chan struct{}, maxStarting)}
	if runtime.GOMAXPROCS(0) == 1 {
		s.starting = make(chan struct{})
	}
	s.goroutines = reuse.NewWorkers(func(_ *struct{}, c *Conn) time.Time {
		<-s.starting
		c.borrow()
		c.serve()
		c.giveBack()
		return time.Now()
	})
	return s
}

// Serve makes a worker serve c. It blocks while more than maxStarting connections wait for their
// workers to start, or more than one with a single processor. If it went on accepting, a burst of
// clients would need a worker for each, although few suffice when each is soon free again.
func (s *Workers) Serve(c *Conn) {
	s.goroutines.Run(c)
	s.starting <- struct{}{}
}

// Stop ends the free workers now, and the others when their connections have ended.
func (s *Workers) Stop() { s.goroutines.Stop() }

// NewStreamWorkers returns the goroutines that run the handlers of HTTP/2 streams.
func NewStreamWorkers() *reuse.Workers[struct{}, *h2.Stream] {
	return reuse.NewWorkers(func(_ *struct{}, st *h2.Stream) time.Time {
		st.Run(nil, 0)
		st.Settle()
		return time.Now()
	})
}
