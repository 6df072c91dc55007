package load

import (
	"errors"
	"time"

	"github.com/tarehq/tare/internal/poll"
)

// request sends what a connection may send now, or lets it rest until its turn.
func (w *worker) request(id int) {
	c := &w.conns[id]
	for c.hasRoom() {
		due, ok := w.isDue(id)
		if !ok {
			break
		}
		w.ask(id, due)
	}
	if len(c.out) > 0 {
		w.flush(id)
	}
}

// hasRoom reports whether one more request can be sent on the connection.
func (c *conn) hasRoom() bool {
	return c.flying < len(c.flights) && !c.last && (c.mux == nil || c.mux.takes(c.flying))
}

// ask puts a request into the connection's output that is due since then.
func (w *worker) ask(id int, due int64) {
	c := &w.conns[id]
	slot := (c.head + c.flying) % len(c.flights)
	for c.flights[slot].busy { // where answers come in any order
		slot = (slot + 1) % len(c.flights)
	}
	m := w.pick()
	c.asked++
	c.last = c.asked == w.PerConnection
	before := len(c.out)
	switch {
	case c.mux != nil:
		var last bool
		w.rendered = m.appendTo(w.rendered[:0], w, c.last)
		c.own, last = c.mux.ask(c.toOwn(), w.rendered, m.isHead, slot)
		c.out, c.last = c.own, c.last || last
	case m.fixed() && len(c.out) == 0:
		c.out, c.own = m.bytes(c.last), c.own[:0]
	default:
		c.own = m.appendTo(c.toOwn(), w, c.last)
		c.out = c.own
	}
	c.committed += int64(len(c.out) - before)
	c.flights[slot] = flight{
		message: m, due: due, sent: w.now, end: c.committed, took: c.took, busy: true, counted: w.tally.counting && w.limited(),
	}
	c.took = 0
	c.flying++
}

// toOwn moves what is still to be sent to the beginning of the connection's own memory, where
// more can follow.
func (c *conn) toOwn() []byte {
	if len(c.out) == len(c.own) { // it is there
		return c.own
	}
	return append(c.own[:0], c.out...)
}

// flush sends what there is room for.
func (w *worker) flush(id int) {
	c := &w.conns[id]
	if c.tls != nil {
		w.flushTLS(id)
		return
	}
	for len(c.out) > 0 {
		n, err := poll.Send(c.fd, c.out)
		if err == poll.ErrAgain { //nolint:errorlint // a bare errno
			w.awaitRoom(id)
			return
		}
		if err != nil {
			w.broken(id, FailedWrite, "write: "+err.Error())
			return
		}
		c.out = c.out[n:]
		if w.tally.counting {
			w.tally.sent += uint64(n)
		}
	}
}

// awaitRoom has the poller report room for output where it does not.
func (w *worker) awaitRoom(id int) {
	c := &w.conns[id]
	if w.address.socket == "" || c.watched {
		return
	}
	c.watched = true
	if err := w.poller.AddOutput(c.fd, id); err != nil {
		w.broken(id, FailedWrite, "write: "+err.Error())
	}
}

// receive reads until that would block, and takes in what comes. A read that does
// not fill the buffer has emptied the socket: what comes later makes another event. So
// there is no second read to learn that nothing is left, which saves a system call for
// each response (BenchmarkRecvNothing of internal/poll). Only when the peer has ended, of
// which no further event would tell, reading goes on, and over TLS, where a read is a record.
func (w *worker) receive(id int, ended bool) {
	c := &w.conns[id]
	for {
		n, err := w.read(c)
		switch {
		case err == poll.ErrAgain: //nolint:errorlint // a bare errno
			return
		case err != nil:
			w.broken(id, FailedRead, "read: "+err.Error())
			return
		case n == 0:
			w.ended(id)
			return
		}
		w.now = w.nanos()
		if w.tally.counting {
			w.tally.bytes += uint64(n)
			w.present.second.Bytes += uint64(n)
		}
		fd := c.fd
		if !w.take(id, w.buffer[:n]) || c.fd != fd || n < len(w.buffer) && !ended && c.tls == nil {
			return
		}
	}
}

func (w *worker) read(c *conn) (int, error) {
	if c.tls != nil {
		return c.tls.read(w.buffer)
	}
	return poll.Recv(c.fd, w.buffer)
}

var (
	errUnasked = errors.New("bytes came before a request was sent")
	errSurplus = errors.New("bytes came after a response, before the next request")
)

// take consumes input. It reports false when the connection is not to be read
// further.
func (w *worker) take(id int, in []byte) bool {
	c := &w.conns[id]
	answered := c.answered
	for len(in) > 0 {
		if c.flying == 0 && c.mux == nil {
			return w.unasked(id, c.answered > answered)
		}
		n, err := w.next(c, in)
		if err != nil {
			w.fail(id, FailedRead, "read: "+err.Error())
			if !w.resting {
				w.connect(id)
			}
			return false
		}
		in = in[n:]
		if c.mux != nil && w.attend(id) {
			if c.last && c.flying == 0 {
				w.again(id)
				return false
			}
			continue
		}
		if c.got < whole {
			continue
		}
		w.accepted(c)
		f := w.answering(c)
		early := c.mux == nil && c.committed-int64(c.unsent()) < f.end
		last := c.answer.last || c.last && c.flying == 1
		w.complete(id, f)
		// Whoever answers before the whole request was sent does not want the rest.
		if last || early || c.once >= closesOnce {
			surplus := len(in) > 0 && c.flying == 0 && c.mux == nil
			if surplus {
				w.note(FailedRead, "read: "+errSurplus.Error())
			}
			w.takeBack(c)
			w.again(id)
			return false
		}
	}
	if c.mux != nil {
		c.own = c.mux.reply(c.toOwn())
		c.out = c.own
	}
	w.request(id)
	return c.state == open
}

// attend does what a multiplexer's connection needs besides responses. It reports whether there
// is no response then.
func (w *worker) attend(id int) bool {
	c := &w.conns[id]
	if c.goes {
		c.last = true
		for slot := range c.flights {
			if f := &c.flights[slot]; f.busy && c.mux.number(slot) > c.lastStream {
				w.takeBackOne(c, f)
			}
		}
		return true
	}
	if c.got < whole {
		return true
	}
	f := w.answering(c)
	switch {
	case c.again:
		w.takeBackOne(c, f)
	case c.fault != "":
		w.note(FailedRead, "read: "+c.fault)
		w.failed(id, f, FailedRead)
		c.flying--
	default:
		return false
	}
	return true
}

// unasked is called when bytes came that answer nothing.
func (w *worker) unasked(id int, surplus bool) bool {
	err := errUnasked
	if surplus {
		err = errSurplus
	}
	w.note(FailedRead, "read: "+err.Error())
	w.again(id)
	return false
}

// next has the reader take in some input.
func (w *worker) next(c *conn, in []byte) (n int, err error) {
	if c.mux == nil {
		if c.got == nothing {
			m := c.flights[c.head].message
			c.isHead, c.checked = m.isHead, c.check
		}
		c.slot = c.head
	}
	n, err = c.reader.take(in, &c.answer)
	if c.slot >= 0 {
		f := &c.flights[c.slot]
		if f.first == 0 {
			f.first = w.now
		}
		f.bytes += int64(n)
	}
	return n, err
}

// answering returns the request that is being answered.
func (w *worker) answering(c *conn) *flight { return &c.flights[c.slot] }

// complete counts a response.
func (w *worker) complete(id int, f *flight) {
	c := &w.conns[id]
	if c.answered++; c.answered > 1 {
		c.once = 0
	}
	failure := w.expected.judge(&c.answer)
	w.count(f, c.status, c.body)
	if failure != Fine {
		if w.tally.errors.First == "" {
			w.noteText(failure.describe(&c.answer))
		}
		if w.tally.counting {
			w.countError(failure)
		}
	}
	if w.Samples > 0 {
		w.sample(&Sample{
			Connect: f.took, Due: w.at(f.due), Sent: w.at(f.sent), First: w.at(f.first), Done: w.at(w.now),
			Connection: w.number(id), Request: f.message.number, Status: int32(c.status), Kept: !c.answer.last && !c.last,
			Failure: failure, Body: c.body, Bytes: f.bytes,
		})
	}
	f.busy = false
	c.flying--
	c.head = (c.head + 1) % len(c.flights)
	c.answer = answer{slot: -1}
	if f.counted {
		w.budget.done()
	}
	w.thinks(id)
}

// count counts a response and its times.
func (w *worker) count(f *flight, status int, body int64) {
	if !w.tally.counting || w.limited() && !f.counted {
		return
	}
	service := time.Duration(w.now - f.sent)
	w.tally.requests++
	w.tally.statuses[status]++
	w.tally.bodies += uint64(body)
	w.present.second.Requests++
	w.tally.firstByte.Record(time.Duration(f.first - f.sent))
	if w.pacer == nil { // in a closed loop it is due when it is sent
		w.present.latency.Record(service)
		return
	}
	w.tally.service.Record(service)
	w.present.latency.Record(time.Duration(w.now - f.due))
}
