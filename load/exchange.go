package load

import (
	"time"

	"github.com/tarehq/tare/internal/poll"
)

// sendDue sends the requests that a connection may send now, or leaves it idle.
func (w *worker) sendDue(id int) {
	c := &w.conns[id]
	for c.hasRoom() {
		due, ok := w.isDue(id)
		if !ok {
			break
		}
		w.enqueue(id, due)
	}
	if len(c.out) > 0 {
		w.flush(id)
	}
}

// hasRoom reports whether the connection can carry one more request.
func (c *conn) hasRoom() bool {
	return c.inFlight < len(c.reusable.exchanges) && !c.last &&
		(c.reusable.http2 == nil || c.reusable.http2.acceptsRequest(c.inFlight))
}

// enqueue appends a request, due at the given time, to the connection's output.
func (w *worker) enqueue(id int, due int64) {
	c := &w.conns[id]
	slot := (c.oldest + c.inFlight) % len(c.reusable.exchanges)
	for c.reusable.exchanges[slot].active { // HTTP/2 frees slots in any order
		slot = (slot + 1) % len(c.reusable.exchanges)
	}
	m := w.nextMessage()
	c.sentRequests++
	c.last = c.sentRequests == w.plan.PerConnection
	before := len(c.out)
	switch {
	case c.reusable.http2 != nil:
		var last bool
		w.rendered = m.appendTo(w.rendered[:0], w, c.last)
		c.reusable.outBuffer, last = c.reusable.http2.appendRequest(c.ownedOutput(), w.rendered, m.isHead, slot)
		c.out, c.last = c.reusable.outBuffer, c.last || last
	case m.fixed() && len(c.out) == 0:
		c.out, c.reusable.outBuffer = m.bytes(c.last), c.reusable.outBuffer[:0]
	default:
		c.reusable.outBuffer = m.appendTo(c.ownedOutput(), w, c.last)
		c.out = c.reusable.outBuffer
	}
	c.queuedBytes += int64(len(c.out) - before)
	c.reusable.exchanges[slot] = exchange{
		message: m, due: due, sent: w.now, endOffset: c.queuedBytes, connectTime: c.connectTime, active: true,
		counted: w.tally.counting && w.job.hasRequestLimit(),
	}
	c.connectTime = 0
	c.inFlight++
}

// ownedOutput moves unsent output to the start of the connection's own buffer, so that more can be
// appended.
func (c *conn) ownedOutput() []byte {
	if len(c.out) == len(c.reusable.outBuffer) { // it is already there
		return c.reusable.outBuffer
	}
	return append(c.reusable.outBuffer[:0], c.out...)
}

// flush sends the connection's output until the socket's buffer is full.
func (w *worker) flush(id int) {
	c := &w.conns[id]
	if c.tls != nil {
		w.flushTLS(id)
		return
	}
	for len(c.out) > 0 {
		n, err := poll.Send(c.fd, c.out)
		if err == poll.ErrAgain { //nolint:errorlint // a bare errno
			w.awaitWritable(id)
			return
		}
		if err != nil {
			w.onError(id, FailedWrite, "write: "+err.Error())
			return
		}
		c.out = c.out[n:]
		if w.tally.counting {
			w.tally.SentBytes += uint64(n)
		}
	}
}

// awaitWritable makes the poller report when a unix socket is writable again. TCP sockets are
// always watched.
func (w *worker) awaitWritable(id int) {
	c := &w.conns[id]
	if w.job.address.socket == "" || c.outputWatched {
		return
	}
	c.outputWatched = true
	if err := w.poller.AddOutput(c.fd, id); err != nil {
		w.onError(id, FailedWrite, "write: "+err.Error())
	}
}

// receive reads and parses input until the socket is empty. A read that does not fill the buffer
// has emptied the socket, and later input makes another event. So receive skips the read that would
// only return EAGAIN, which saves a system call for each response (BenchmarkRecvNothing of
// internal/poll). It reads on if the peer has closed, since no event would follow, and over TLS,
// where each read returns one record.
func (w *worker) receive(id int, ended bool) {
	c := &w.conns[id]
	for {
		n, err := w.read(c)
		switch {
		case err == poll.ErrAgain: //nolint:errorlint // a bare errno
			return
		case err != nil:
			w.onError(id, FailedRead, "read: "+err.Error())
			return
		case n == 0:
			w.onEOF(id)
			return
		}
		w.now = w.nanos()
		w.tally.arrived = w.now
		if w.tally.counting {
			w.current.second.Bytes += uint64(n)
		}
		fd := c.fd
		if !w.consume(id, w.buffer[:n]) || c.fd != fd || n < len(w.buffer) && !ended && c.tls == nil {
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

// The errors of bytes that no request has caused.
const (
	unsolicited = "read: received bytes before a request was sent"
	surplus     = "read: received bytes after a response, before the next request"
)

// consume parses input. It returns false if the connection must not be read further.
func (w *worker) consume(id int, in []byte) bool {
	c := &w.conns[id]
	responsesBefore := c.responses
	for len(in) > 0 {
		if c.inFlight == 0 && c.reusable.http2 == nil {
			text := unsolicited
			if c.responses > responsesBefore {
				text = surplus
			}
			w.recordError(FailedRead, text)
			w.reconnect(id)
			return false
		}
		n, err := w.feedReader(c, in)
		if err != nil {
			w.failConn(id, FailedRead, "read: "+err.Error())
			return false
		}
		in = in[n:]
		if c.reusable.http2 != nil && w.handleControl(id) {
			if c.last && c.inFlight == 0 {
				w.reconnect(id)
				return false
			}
			continue
		}
		if c.response.stage < complete {
			continue
		}
		w.leaveBacklog(c)
		f := w.currentExchange(c)
		early := c.reusable.http2 == nil && c.queuedBytes-int64(c.unsent()) < f.endOffset
		last := c.response.last || c.last && c.inFlight == 1
		w.completeExchange(id, f)
		// A server that responds before the whole request was sent does not want the rest of it.
		if last || early || c.reusable.singleUses >= maxSingleUses {
			if len(in) > 0 && c.inFlight == 0 && c.reusable.http2 == nil {
				w.recordError(FailedRead, surplus)
			}
			w.requeueAll(c)
			w.reconnect(id)
			return false
		}
	}
	if c.reusable.http2 != nil {
		c.reusable.outBuffer = c.reusable.http2.appendReplies(c.ownedOutput())
		c.out = c.reusable.outBuffer
	}
	w.sendDue(id)
	return c.state == open
}

// handleControl handles HTTP/2's input other than responses. It reports whether there was no
// response.
func (w *worker) handleControl(id int) bool {
	c := &w.conns[id]
	if c.response.goAway {
		w.goAway(id)
		return true
	}
	if c.response.stage < complete {
		return true
	}
	switch f := w.currentExchange(c); {
	case c.response.refused:
		w.failStream(id, f, FailedRefused, c.response.streamError)
	case c.response.streamError != "":
		w.failStream(id, f, FailedRead, "read: "+c.response.streamError)
	default:
		return false
	}
	return true
}

// goAway handles a GOAWAY frame. Requests above its last stream ID are retried, unless several
// connections in a row ended without a response: then they are errors.
func (w *worker) goAway(id int) {
	c := &w.conns[id]
	c.last = true
	isRefused := c.responses == 0 && c.reusable.fruitless+1 >= maxFruitless
	for slot := range c.reusable.exchanges {
		f := &c.reusable.exchanges[slot]
		switch {
		case !f.active || c.reusable.http2.streamID(slot) <= c.response.lastStreamID:
		case isRefused:
			w.failStream(id, f, FailedRefused, "the server closes each connection without a response (GOAWAY)")
		default:
			w.requeue(c, f)
		}
	}
}

// failStream ends an exchange whose connection goes on.
func (w *worker) failStream(id int, f *exchange, kind Failure, text string) {
	w.recordError(kind, text)
	w.failExchange(id, f, kind)
	w.conns[id].inFlight--
}

func (w *worker) feedReader(c *conn, in []byte) (n int, err error) {
	if c.reusable.http2 == nil {
		if c.response.stage == beforeHead {
			m := c.reusable.exchanges[c.oldest].message
			c.response.isHead, c.response.checked = m.isHead, c.reusable.check
		}
		c.response.slot = c.oldest
	}
	n, err = c.reusable.reader.consume(in, &c.response)
	if c.response.slot >= 0 {
		f := &c.reusable.exchanges[c.response.slot]
		if f.firstByte == 0 {
			f.firstByte = w.now
		}
		f.bytes += int64(n)
	}
	return n, err
}

func (w *worker) currentExchange(c *conn) *exchange { return &c.reusable.exchanges[c.response.slot] }

func (w *worker) completeExchange(id int, f *exchange) {
	c := &w.conns[id]
	if c.responses++; c.responses > 1 {
		c.reusable.singleUses = 0
	}
	failure := w.job.expected.judge(&c.response)
	if failure != NoFailure {
		if w.tally.Errors.First == "" {
			w.recordFirstError(failure.describe(&c.response))
		}
		if w.tally.counting {
			w.countError(failure)
		}
	}
	w.countResponse(f, c.response.status, c.response.body)
	w.recordSample(id, f, Sample{Request: f.message.index, Status: int32(c.response.status),
		Kept: !c.response.last && !c.last, Failure: failure, Body: c.response.body, Bytes: f.bytes})
	f.active = false
	c.inFlight--
	c.oldest = (c.oldest + 1) % len(c.reusable.exchanges)
	c.response = response{slot: -1}
	if f.counted {
		w.run.requestBudget.finish()
	}
	w.startThinking(id)
}

func (w *worker) countResponse(f *exchange, status int, body int64) {
	if !w.tally.counting || w.job.hasRequestLimit() && !f.counted {
		return
	}
	service := time.Duration(w.now - f.sent)
	w.tally.Requests++
	w.current.statuses[status]++
	w.tally.BodyBytes += uint64(body)
	w.current.second.Requests++
	w.tally.FirstByte.Record(time.Duration(f.firstByte - f.sent))
	if w.pacer == nil { // in a closed loop a request is due when it is sent
		w.current.latency.Record(service)
		return
	}
	w.tally.Service.Record(service)
	w.current.latency.Record(time.Duration(w.now - f.due))
}
