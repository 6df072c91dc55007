package load

import (
	"errors"
	"time"

	"github.com/tarehq/tare/internal/poll"
)

// connState is where a connection is in its life.
type connState uint8

const (
	closed  connState = iota // to be opened by the next sweep
	queuing                  // likewise: the queue of the server's unix socket is full
	opening                  // connect was called
	shaking                  // TLS is being agreed on
	open                     // requests can be sent
)

// conn is one connection.
type conn struct {
	connKept
	fd        int
	state     connState
	last      bool          // no more requests are to be sent on it
	watched   bool          // room for output is reported
	asked     int           // requests sent on it
	answered  int           // responses on it
	since     int64         // when connecting began
	took      time.Duration // to connect, if no request was sent since
	out       []byte        // to be sent
	committed int64         // bytes of requests that were handed to it
	tls       *tlsConn      // nil without TLS

	flying int // requests under way
	head   int // the oldest of them, where answers come in turn
	answer
}

// connKept is what a connection keeps when it is closed and opened again.
type connKept struct {
	reader    reader
	mux       multiplexer // the reader, if requests share the connection
	flights   []flight
	own       []byte // memory for out
	check     *check // nil if any response is right
	fresh     bool   // its first attempt to connect is not over
	accepting bool   // it may be in the server's backlog
	queued    bool   // among the pacer's resting connections
	once      uint8  // how often in a row the server closed it after one response
	wake      int64  // until when its user thinks
}

// flight is one request under way.
type flight struct {
	message *message
	due     int64 // when the request was to be sent
	sent    int64 // when it began to be
	first   int64 // when the first byte of its response came; 0 before
	end     int64 // conn.committed, after it
	took    time.Duration
	bytes   int64 // of its response
	busy    bool
	counted bool // it is one of a plan's number of requests
}

// unsent returns how many bytes wait for room.
func (c *conn) unsent() int {
	if c.tls != nil {
		return len(c.out) + len(c.tls.out)
	}
	return len(c.out)
}

// doing says what a connection is waiting for.
func (c *conn) doing() string {
	switch {
	case c.state < open:
		return [...]string{
			closed: "closed", queuing: "in front of the server's full queue", opening: "connecting", shaking: "agreeing on TLS",
		}[c.state]
	case c.flying == 0:
		return "resting"
	case c.got == inBody:
		return "in a response's body"
	case c.unsent() > 0:
		return "sending the request"
	}
	return "waiting for a response"
}

// connect opens connection id, or tries to again, and counts it as one that may wait in
// the server's backlog.
func (w *worker) connect(id int) {
	if c := &w.conns[id]; !c.accepting {
		c.accepting = true
		w.connecting++
	}
	w.dial(id)
}

// dial opens connection id.
func (w *worker) dial(id int) {
	c := &w.conns[id]
	if c.state != queuing {
		c.since = w.nanos() // many may begin since now
	}
	fd, err := w.route.connect(&w.address)
	if err == nil {
		if err = w.watch(fd, id); err != nil {
			_ = poll.Close(fd)
		}
	}
	switch {
	case err == nil:
		c.fd, c.state = fd, opening
	case errors.Is(err, poll.ErrAgain):
		c.state = queuing
	default:
		c.state = closed
		w.cannotConnect(id, FailedConnect, err.Error())
		return
	}
	if c.state == opening && w.address.socket != "" { // connected at once, or not at all
		w.opened(id)
	}
}

// watch has the poller report a new connection. Over TCP that tells also when it is connected. A
// unix socket has room for output each time its peer reads, which is not worth to be told.
func (w *worker) watch(fd, id int) error {
	if w.address.socket != "" {
		return w.poller.AddInput(fd, id)
	}
	return w.poller.Add(fd, id)
}

// cannotConnect counts a connection that was not made. One of a number of requests has failed
// with it: otherwise a server that is gone would be called on for ever.
func (w *worker) cannotConnect(id int, kind Failure, text string) {
	w.note(kind, text)
	w.refused.Add(1)
	if w.isBusy(id) && w.limited() && w.tally.counting && w.budget.take() {
		w.sample(&Sample{Due: w.at(w.now), Sent: w.at(w.now), Done: w.at(w.now), Connection: w.number(id), Failure: kind})
		w.budget.done()
	}
	w.hangUp(id)
}

// accepted notes that the server has taken the connection out of its backlog, or that
// it was given up.
func (w *worker) accepted(c *conn) {
	if c.accepting {
		c.accepting = false
		w.connecting--
	}
	w.settle(c)
}

// settle ends the first attempt to connect, for the conductor.
func (w *worker) settle(c *conn) {
	if c.fresh {
		c.fresh = false
		w.pending.Add(-1)
	}
}

// opened is called when the socket is connected.
func (w *worker) opened(id int) {
	c := &w.conns[id]
	if err := poll.ConnectError(c.fd); err != nil {
		w.cannotConnect(id, FailedConnect, err.Error())
		return
	}
	w.now = w.nanos()
	c.took = time.Duration(w.now - c.since)
	w.tally.connect.Record(c.took)
	if w.tls == nil {
		w.ready(id)
		return
	}
	c.state, c.tls = shaking, newTLSConn(c.fd, w.tls)
	w.shake(id)
}

// ready is called when requests can be sent.
func (w *worker) ready(id int) {
	c := &w.conns[id]
	if w.tally.counting {
		w.tally.connects++
	} else {
		w.tally.opened++
	}
	w.reach()
	c.state, c.took = open, time.Duration(w.now-c.since)
	if c.mux != nil {
		c.own = c.mux.greet(c.own[:0])
		c.out = c.own
		w.flush(id)
		if c.state != open {
			return
		}
	}
	if w.pacer == nil && w.seen == connecting && w.isBusy(id) && !w.limited() {
		w.ask(id, w.now) // the answer tells that the server has accepted
		w.flush(id)
		return
	}
	if w.pacer != nil || !w.isBusy(id) {
		w.accepted(c)
	}
	w.request(id)
}

// reach notes that the server takes connections.
func (w *worker) reach() {
	if !w.reached.Load() {
		w.reached.Store(true)
	}
	if w.refused.Load() > 0 {
		w.refused.Store(0)
	}
}

// hangUp closes a connection on our side. Requests under way on it have been dealt with.
func (w *worker) hangUp(id int) {
	c := &w.conns[id]
	w.accepted(c)
	if c.fd >= 0 {
		_ = poll.Close(c.fd)
	}
	if c.tls != nil {
		c.tls.release()
	}
	c.reader.reset()
	*c = conn{fd: -1, connKept: c.connKept}
}

// again closes a connection and opens it at once. It is not counted: where a server closes
// all connections, those that are opened anew would leave no turn to those that never were.
func (w *worker) again(id int) {
	w.hangUp(id)
	if !w.resting { // else the next slice opens it
		w.dial(id)
	}
}

// fail counts an error for each request under way, or one, and closes the connection; a sweep
// opens it again.
func (w *worker) fail(id int, kind Failure, text string) {
	c := &w.conns[id]
	if c.flying == 0 {
		w.note(kind, text)
	}
	for i := range c.flights {
		if f := &c.flights[i]; f.busy {
			w.note(kind, text)
			w.failed(id, f, kind)
		}
	}
	w.hangUp(id)
}

// failed ends a request without a response.
func (w *worker) failed(id int, f *flight, kind Failure) {
	w.sample(&Sample{
		Connect: f.took, Due: w.at(f.due), Sent: w.at(f.sent), First: w.at(f.first), Done: w.at(w.now),
		Connection: w.number(id), Request: f.message.number, Failure: kind, Bytes: f.bytes,
	})
	f.busy = false
	if f.counted {
		w.budget.done()
	}
}

// takeBack has the requests that are under way on a connection sent again, on whichever is free.
// It is called when the server closed the connection as it may.
func (w *worker) takeBack(c *conn) {
	for i := range c.flights {
		if c.flights[i].busy {
			w.takeBackOne(c, &c.flights[i])
		}
	}
}

func (w *worker) takeBackOne(c *conn, f *flight) {
	f.busy = false
	c.flying--
	if f.counted {
		w.budget.giveBack()
	}
	if w.pacer != nil {
		w.pacer.again = append(w.pacer.again, f.due)
	}
}

// serve does what an event allows.
func (w *worker) serve(e *poll.Event) {
	c := &w.conns[e.ID]
	switch {
	case c.state == opening && e.Writable:
		w.opened(e.ID)
	case c.state == shaking:
		w.shake(e.ID)
		return
	}
	if c.state == open && e.Readable { // an answer may have come before all was sent
		w.receive(e.ID, e.Ended)
	}
	if c.state == open && e.Writable && c.unsent() > 0 && (c.mux != nil || c.got < inBody) {
		w.flush(e.ID)
	}
}

// ended is called when the server has closed the connection.
func (w *worker) ended(id int) {
	c := &w.conns[id]
	switch {
	case c.flying == 0: // servers may close what is idle
	case w.parted(c):
		w.resend(id)
		return
	case c.got == inBody && c.reader.untilClose():
		w.complete(id, w.answering(c))
		w.takeBack(c)
	default:
		kind := "connection closed in the middle of a response"
		if c.got == nothing {
			kind = "connection closed before a response"
			if c.unsent() > 0 {
				kind = "connection closed while the request was being sent"
			}
		}
		w.fail(id, FailedRead, "read: "+kind)
	}
	w.again(id)
}

// broken is called when the connection has failed.
func (w *worker) broken(id int, kind Failure, text string) {
	if w.parted(&w.conns[id]) {
		w.resend(id)
		return
	}
	w.fail(id, kind, text)
}

// parted reports whether the server may have closed the connection after its last response,
// as servers may where they cannot announce it, and a request was sent too late.
func (w *worker) parted(c *conn) bool {
	return !w.protocol.announces() && c.flying > 0 && c.got == nothing && c.answered > 0
}

// closesOnce is how often in a row a connection must be closed after one response for us to
// close it ourselves from then on.
const closesOnce = 2

// resend has the request sent again, on a new connection.
func (w *worker) resend(id int) {
	c := &w.conns[id]
	if c.answered == 1 {
		c.once++
	}
	if w.tally.counting {
		w.tally.fastCGI.Resent++
	}
	w.takeBack(c)
	w.again(id)
}
