package engine

import "runtime"

// workers are the goroutines that serve a listener's connections on the goroutine path. A worker
// whose connection has ended serves another. Its stack has already grown to what handlers need, and
// its buffers are allocated. For connections of one request this halves the cost of a connection.
type workers struct {
	// serve sends one for each connection; its worker receives it when it starts
	starting chan struct{}
	free     freeList[worker]
}

type worker struct {
	conn *conn
	next chan *netConn
	threadCheck
}

func newWorkers() *workers {
	return &workers{starting: make(chan struct{}, runtime.GOMAXPROCS(0)-1)}
}

// serve makes a worker serve c. It blocks while GOMAXPROCS connections wait for their workers to
// start. If it went on accepting, a burst of clients would need a worker for each, although few
// suffice when each is soon free again.
func (s *workers) serve(c *netConn) {
	if w := s.free.get(); w != nil {
		w.next <- c
	} else {
		w := &worker{conn: newConn(inSize), next: make(chan *netConn, 1)}
		go s.run(w, c)
	}
	s.starting <- struct{}{}
}

// run serves connections until the worker is no longer needed. Goexit in a handler ends it, too.
func (s *workers) run(w *worker, c *netConn) {
	for ok := true; ok; c, ok = awaitWork(&s.free, w, w.next) {
		<-s.starting
		c.attach(w.conn)
		c.serve()
		c.conn = nil // a Request that a program keeps refers to c
		resetLabels()
		w.conn.reset()
		w.conn.nc, w.conn.transport, w.conn.ctx = nil, nil, nil
		// c.opened is recent enough, and saves reading the clock.
		if w.isLocked(c.opened) {
			return
		}
	}
}

// stop ends the free workers now, and the others when their connections have ended.
func (s *workers) stop() {
	for _, w := range s.free.stop() {
		close(w.next)
	}
}
