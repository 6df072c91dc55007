package load

import (
	"errors"
	"time"

	"github.com/tarehq/tare/internal/poll"
)

// connState is where a connection is in its round.
type connState uint8

const (
	closed    connState = iota // to be opened by the next sweep
	queuing                    // likewise: the queue of the server's unix socket is full
	opening                    // connect was called
	resting                    // nothing is due
	sending                    // some of the request is unsent
	receiving                  // the response is incomplete
)

// conn is one connection.
type conn struct {
	fd        int
	state     connState
	fresh     bool  // its first attempt to connect is not over
	accepting bool  // it may be in the server's backlog
	once      uint8 // how often in a row the server closed it after one response
	answered  int   // responses on it
	since     int64 // when connecting began or the request was sent
	due       int64 // when the request was to be sent
	sent      int64 // when it began to be
	first     int64 // when the first byte of its response came; 0 before
	queued    bool  // among the pacer's resting connections

	unsent int // bytes of the request
	answer
	reader reader
}

// doing says what a connection is waiting for.
func (c *conn) doing() string {
	if c.state >= sending && c.got == inBody {
		return "in a response's body"
	}
	return [...]string{
		closed: "closed", queuing: "in front of the server's full queue", opening: "connecting", resting: "resting",
		sending: "sending the request", receiving: "waiting for a response",
	}[c.state]
}

// connect opens connection id anew, or tries to again.
func (w *worker) connect(id int) {
	c := &w.conns[id]
	if c.state != queuing {
		c.since = w.now
	}
	fd, err := w.address.connect()
	if err == nil {
		if err = w.poller.Add(fd, id); err != nil {
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
		w.note(&w.tally.errors.Connect, err.Error())
		w.accepted(c)
		return
	}
	if !c.accepting {
		c.accepting = true
		w.connecting++
	}
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

// fail counts an error and closes the connection; a sweep opens it again.
func (w *worker) fail(id int, kind *uint64, text string) {
	w.note(kind, text)
	w.hangUp(id)
}

// hangUp closes a connection on our side.
func (w *worker) hangUp(id int) {
	c := &w.conns[id]
	w.accepted(c)
	if c.fd >= 0 {
		_ = poll.Close(c.fd)
	}
	c.reader.reset()
	*c = conn{fd: -1, queued: c.queued, once: c.once, reader: c.reader}
}

// again closes a connection and opens it at once.
func (w *worker) again(id int) {
	w.hangUp(id)
	w.connect(id)
}

// serve does what an event allows.
func (w *worker) serve(e *poll.Event) {
	c := &w.conns[e.ID]
	if c.state == opening && e.Writable {
		w.opened(e.ID)
	}
	if c.state >= resting && e.Readable { // an answer may have come before all was sent
		w.receive(e.ID, e.Ended)
	}
	if c.state == sending && c.got < inBody && e.Writable {
		w.send(e.ID)
	}
}

func (w *worker) opened(id int) {
	c := &w.conns[id]
	if err := poll.ConnectError(c.fd); err != nil {
		w.fail(id, &w.tally.errors.Connect, err.Error())
		return
	}
	if w.tally.counting {
		w.tally.connects++
	} else {
		w.tally.opened++
	}
	if w.pacer == nil && !w.loaded && w.isBusy(id) {
		w.ask(id, w.now) // the answer tells that the server has accepted
		return
	}
	w.accepted(c)
	w.request(id)
}

// request begins a round, or lets the connection rest until its turn.
func (w *worker) request(id int) {
	c := &w.conns[id]
	due, ok := w.isDue(id)
	if !ok {
		c.state = resting
		return
	}
	w.ask(id, due)
}

// ask sends a request that is due since then.
func (w *worker) ask(id int, due int64) {
	c := &w.conns[id]
	c.state, c.since, c.due, c.sent, c.first = sending, w.now, due, w.now, 0
	c.unsent, c.answer = len(w.payload), answer{}
	w.send(id)
}

func (w *worker) send(id int) {
	c := &w.conns[id]
	request := w.payload
	for c.unsent > 0 {
		n, err := poll.Send(c.fd, request[len(request)-c.unsent:])
		if err == poll.ErrAgain { //nolint:errorlint // a bare errno
			return
		}
		if err != nil {
			w.broken(id, &w.tally.errors.Write, "write: "+err.Error())
			return
		}
		c.unsent -= n
	}
	c.state = receiving
}

// receive reads until that would block, and takes in what comes. A read that does
// not fill the buffer has emptied the socket: what comes later makes another event. So
// there is no second read to learn that nothing is left, which saves a system call for
// each response (BenchmarkRecvNothing of internal/poll). Only when the peer has ended, of
// which no further event would tell, reading goes on.
func (w *worker) receive(id int, ended bool) {
	c := &w.conns[id]
	for {
		n, err := poll.Recv(c.fd, w.buffer)
		switch {
		case err == poll.ErrAgain: //nolint:errorlint // a bare errno
			return
		case err != nil:
			w.broken(id, &w.tally.errors.Read, "read: "+err.Error())
			return
		case n == 0:
			w.ended(id)
			return
		}
		w.now = w.nanos()
		if w.tally.counting {
			w.tally.bytes += uint64(n)
			w.second.Bytes += uint64(n)
		}
		fd := c.fd
		if !w.take(id, w.buffer[:n]) || c.fd != fd || n < len(w.buffer) && !ended {
			return
		}
	}
}

// ended is called when the server has closed the connection.
func (w *worker) ended(id int) {
	c := &w.conns[id]
	switch {
	case c.state == resting: // servers may close what is idle
	case w.parted(c):
		w.resend(id)
		return
	case c.got == inBody && c.reader.untilClose():
		w.complete(c)
	case c.state == sending && c.got == nothing:
		w.note(&w.tally.errors.Read, "read: connection closed while the request was being sent")
	case c.got == nothing:
		w.note(&w.tally.errors.Read, "read: connection closed before a response")
	default:
		w.note(&w.tally.errors.Read, "read: connection closed in the middle of a response")
	}
	w.again(id)
}

// broken is called when the connection has failed.
func (w *worker) broken(id int, kind *uint64, text string) {
	if w.parted(&w.conns[id]) {
		w.resend(id)
		return
	}
	w.fail(id, kind, text)
}

// parted reports whether the server may have closed the connection after its last response,
// as servers may where they cannot announce it, and a request was sent too late.
func (w *worker) parted(c *conn) bool {
	return !w.protocol.announces() && c.state >= sending && c.got == nothing && c.answered > 0
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
	w.giveBack(c)
	w.again(id)
}

// take consumes input. It reports false when the connection is not to be read
// further.
func (w *worker) take(id int, in []byte) bool {
	c := &w.conns[id]
	n, err := 0, errUnasked
	if c.state > resting && c.unsent < len(w.payload) {
		if c.first == 0 {
			c.first = w.now
		}
		n, err = c.reader.take(in, &c.answer)
	}
	if err == nil && c.got < whole {
		return true
	}
	if err == nil {
		w.accepted(c)
		w.complete(c)
		if n < len(in) {
			err = errSurplus
		}
	}
	if err != nil {
		w.note(&w.tally.errors.Read, "read: "+err.Error())
	}
	// Whoever answers before the whole request was sent does not want the rest.
	if err != nil || c.last || c.unsent > 0 || c.once >= closesOnce {
		w.again(id)
		return false
	}
	w.request(id)
	return c.state > opening
}

var (
	errUnasked = errors.New("bytes came before a request was sent")
	errSurplus = errors.New("bytes came after a response, before the next request")
)

// complete counts a response.
func (w *worker) complete(c *conn) {
	if c.answered++; c.answered > 1 {
		c.once = 0
	}
	if !w.tally.counting {
		return
	}
	latency := time.Duration(w.now - c.due)
	w.tally.requests++
	w.tally.statuses[c.status]++
	w.tally.service.Record(time.Duration(w.now - c.sent))
	if w.pacer != nil { // in a closed loop it is the same
		w.tally.latency.Record(latency)
	}
	w.tally.firstByte.Record(time.Duration(c.first - c.sent))
	s := w.second
	s.Requests++
	if c.status >= 400 {
		w.tally.errors.Status++
		s.Errors++
	}
}
