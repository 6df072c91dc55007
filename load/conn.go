package load

import (
	"errors"
	"time"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/wire/http1"
)

// connState is where a connection is in its round.
type connState uint8

const (
	closed    connState = iota // to be opened by the next sweep
	opening                    // connect was called
	resting                    // nothing is due
	sending                    // some of the request is unsent
	receiving                  // the response's head is incomplete
	inBody                     // the head is complete, its body is not
)

func (s connState) String() string {
	return [...]string{
		closed: "closed", opening: "connecting", resting: "resting", sending: "sending the request",
		receiving: "waiting for a response", inBody: "in a response's body",
	}[s]
}

// conn is one connection.
type conn struct {
	fd        int
	state     connState
	fresh     bool  // its first attempt to connect is not over
	accepting bool  // it may be in the server's backlog
	since     int64 // when connecting began or the request was sent
	due       int64 // when the request was to be sent
	turn      int64 // of an open loop, its next

	unsent  int    // bytes of the request
	partial []byte // of a head that came in pieces
	status  int    // of the response, in inBody
	last    bool   // the server closes the connection after this response
	mode    http1.Mode
	left    int64 // of a body by length
	chunks  http1.Chunked
}

// connect opens connection id anew.
func (w *worker) connect(id int) {
	c := &w.conns[id]
	fd, err := poll.Connect(w.address)
	if err == nil {
		if err = w.poller.Add(fd, id); err != nil {
			_ = poll.Close(fd)
		}
	}
	c.since = w.now
	if err != nil {
		w.note(&w.tally.errors.Connect, err.Error())
		w.settle(c)
		return
	}
	c.fd, c.state, c.accepting = fd, opening, true
	w.connecting++
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
	_ = poll.Close(c.fd)
	*c = conn{fd: -1, turn: c.turn, partial: c.partial[:0]}
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
	if c.state == sending && e.Writable {
		w.send(e.ID)
	}
}

func (w *worker) opened(id int) {
	c := &w.conns[id]
	if err := poll.ConnectError(c.fd); err != nil {
		w.fail(id, &w.tally.errors.Connect, err.Error())
		return
	}
	if w.counting {
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
	c.state, c.since, c.due, c.unsent = sending, w.now, due, len(w.payload)
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
			w.fail(id, &w.tally.errors.Write, "write: "+err.Error())
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
			w.fail(id, &w.tally.errors.Read, "read: "+err.Error())
			return
		case n == 0:
			w.ended(id)
			return
		}
		w.now = w.nanos()
		if w.counting {
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
	case c.state == inBody && c.mode == http1.UntilClose:
		w.complete(c)
	case c.state == sending && len(c.partial) == 0:
		w.note(&w.tally.errors.Read, "read: connection closed while the request was being sent")
	case c.state == receiving && len(c.partial) == 0:
		w.note(&w.tally.errors.Read, "read: connection closed before a response")
	default:
		w.note(&w.tally.errors.Read, "read: connection closed in the middle of a response")
	}
	w.again(id)
}

// take consumes input. It reports false when the connection is not to be read
// further.
func (w *worker) take(id int, in []byte) bool {
	c := &w.conns[id]
	for len(in) > 0 {
		var n int
		var err error
		switch {
		case c.state == inBody:
			n, err = w.takeBody(c, in)
		case c.state == resting || c.unsent == len(w.payload):
			err = errUnasked
		default:
			n, err = w.takeHead(c, in)
		}
		in = in[n:]
		if err == nil && (c.state != inBody || c.mode != http1.NoBody) {
			continue
		}
		if err == nil {
			w.accepted(c)
			w.complete(c)
			if len(in) > 0 {
				err = errSurplus
			}
		}
		if err != nil {
			w.note(&w.tally.errors.Read, "read: "+err.Error())
		}
		if err != nil || c.last {
			w.again(id)
			return false
		}
		w.request(id)
		return c.state != closed
	}
	return true
}

var (
	errUnasked  = errors.New("bytes came before a request was sent")
	errSurplus  = errors.New("bytes came after a response, before the next request")
	errSwitched = errors.New("the server switched protocols (status 101)")
)

// takeHead parses a head, or keeps what there is of it. A head that comes whole,
// as nearly all do, is parsed where it was read.
func (w *worker) takeHead(c *conn, in []byte) (n int, err error) {
	head, kept := in, len(c.partial)
	if kept > 0 {
		c.partial = append(c.partial, in...)
		head = c.partial
	}
	w.response.Reset()
	complete, err := w.response.Parse(head, w.limits)
	if err != nil {
		return 0, err
	}
	if !complete {
		if kept == 0 {
			c.partial = append(c.partial, in...)
		}
		return len(in), nil
	}
	c.partial = c.partial[:0]
	n = w.response.Size - kept
	if w.response.Status == 101 {
		return n, errSwitched
	}
	if w.response.Status < 200 {
		return n, nil // an interim response; the final one follows
	}
	f := w.response.Body(w.isHead)
	c.state, c.mode, c.left = inBody, f.Mode, f.Length
	// Whoever answers before the whole request was sent does not want the rest.
	c.status, c.last = w.response.Status, !w.response.Persistent || c.unsent > 0
	c.chunks = http1.Chunked{}
	return n, nil
}

// takeBody passes over body bytes. At the body's end mode becomes NoBody.
func (w *worker) takeBody(c *conn, in []byte) (n int, err error) {
	switch c.mode {
	case http1.UntilClose:
		return len(in), nil
	case http1.ByLength:
		n = int(min(c.left, int64(len(in))))
		if c.left -= int64(n); c.left == 0 {
			c.mode = http1.NoBody
		}
		return n, nil
	}
	if !c.chunks.Done() {
		_, n, err = c.chunks.Next(in)
		return n, err
	}
	return w.takeTrailer(c, in)
}

func (w *worker) takeTrailer(c *conn, in []byte) (n int, err error) {
	kept := len(c.partial)
	c.partial = append(c.partial, in...)
	var t http1.Trailer
	complete, err := t.Parse(c.partial, w.limits)
	if err != nil || !complete {
		return len(in), err
	}
	c.partial = c.partial[:0]
	c.mode = http1.NoBody
	return t.Size - kept, nil
}

// complete counts a response.
func (w *worker) complete(c *conn) {
	if !w.counting {
		return
	}
	latency := time.Duration(w.now - c.due)
	w.tally.requests++
	w.tally.statuses[c.status]++
	w.tally.latency.Record(latency)
	s := w.second
	s.Requests++
	s.LatencySum += latency
	s.LatencyMax = max(s.LatencyMax, latency)
	if c.status >= 400 {
		w.tally.errors.Status++
		s.Errors++
	}
}
