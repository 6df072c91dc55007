package engine

import "runtime"

// workers are the goroutines that serve a listener's connections on the portable
// path. One whose connection has ended serves another: its stack has grown to what
// handlers need, which a new goroutine's must do first, and its buffers are there. For
// connections of one request that halves what they cost.
type workers struct {
	begun chan struct{} // each takes one when it begins with a connection
	idle  idle[worker]
}

type worker struct {
	conn *conn
	next chan *netConn
	hygiene
}

func newWorkers() *workers {
	return &workers{begun: make(chan struct{}, runtime.GOMAXPROCS(0)-1)}
}

// serve has a worker serve c. It returns when there are processors enough for all
// those to begin that have not yet: were it to go on accepting, a crowd of clients would
// need as many workers, where few are enough if each soon answers and is free again.
func (s *workers) serve(c *netConn) {
	if w := s.idle.take(); w != nil {
		w.next <- c
	} else {
		w := &worker{conn: newConn(inSize), next: make(chan *netConn, 1)}
		go s.run(w, c)
	}
	s.begun <- struct{}{}
}

// run serves connections until none is expected. Goexit in a handler ends it, too.
func (s *workers) run(w *worker, c *netConn) {
	for ok := true; ok; c, ok = await(&s.idle, w, w.next) {
		<-s.begun
		c.attach(w.conn)
		c.serve()
		c.conn = nil // a request that is kept keeps c
		forgetLabels()
		w.conn.reset()
		w.conn.nc, w.conn.link, w.conn.ctx = nil, nil, nil
		// When c was opened is late enough a time to look, and costs no other.
		if w.look(c.opened) {
			return
		}
	}
}

// stop ends the idle workers, and the others when their connections have ended.
func (s *workers) stop() {
	for _, w := range s.idle.stop() {
		close(w.next)
	}
}
