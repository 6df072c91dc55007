package netconn

import (
	"runtime"
	"time"

	"github.com/tarehq/tare/internal/engine/reuse"
)

// Workers are the goroutines that serve a listener's connections on the goroutine path. A worker
// whose connection has ended serves another: its stack has already grown to what handlers need. For
// connections of one request this halves the cost of a connection.
type Workers struct {
	// serve sends one for each connection; its worker receives it when it starts
	starting chan struct{}
	free     reuse.FreeList[worker]
}

type worker struct {
	next chan *Conn
	age  reuse.Age
}

// maxStarting is how many connections may wait for their workers to start if there are several
// processors. If the one that accepts waited for each, they would take turns: 16 instead of one
// save a third of the time of connections that arrive faster than they are served.
const maxStarting = 16

// NewWorkers returns workers without a goroutine.
func NewWorkers() *Workers {
	if runtime.GOMAXPROCS(0) == 1 {
		return &Workers{starting: make(chan struct{})}
	}
	return &Workers{starting: make(chan struct{}, maxStarting)}
}

// Serve makes a worker serve c. It blocks while more than maxStarting connections wait for their
// workers to start, or more than one with a single processor. If it went on accepting, a burst of
// clients would need a worker for each, although few suffice when each is soon free again.
func (s *Workers) Serve(c *Conn) {
	if w := s.free.Get(); w != nil {
		w.next <- c
	} else {
		w := &worker{next: make(chan *Conn, 1)}
		go s.run(w, c)
	}
	s.starting <- struct{}{}
}

// run serves connections until the worker is no longer needed. Goexit in a handler ends it, too.
func (s *Workers) run(w *worker, c *Conn) {
	for ok := true; ok; c, ok = reuse.AwaitWork(&s.free, w, w.next) {
		<-s.starting
		c.borrow()
		c.serve()
		c.giveBack()
		reuse.ResetLabels()
		if w.age.IsOver(time.Now()) {
			return
		}
	}
}

// Stop ends the free workers now, and the others when their connections have ended.
func (s *Workers) Stop() {
	for _, w := range s.free.Stop() {
		close(w.next)
	}
}
