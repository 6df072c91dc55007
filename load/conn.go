package load

import (
	"errors"
	"time"

	"github.com/tarehq/tare/internal/poll"
)

// connState is where a connection is in its life.
type connState uint8

const (
	closed          connState = iota // to be opened by the next sweep
	awaitingBacklog                  // likewise: the queue of the server's unix socket is full
	opening                          // connect was called
	handshaking                      // TLS is being agreed on
	open                             // requests can be sent
)

// conn is one connection.
type conn struct {
	reusable
	fd            int
	state         connState
	last          bool          // no more requests are to be sent on it
	outputWatched bool          // room for output is reported
	sentRequests  int           // requests sent on it
	responses     int           // responses on it
	connectStart  int64         // when connecting began
	connectTime   time.Duration // to connect, if no request was sent since
	out           []byte        // to be sent
	queuedBytes   int64         // bytes of requests that were handed to it
	tls           *tlsConn      // nil without TLS

	inFlight int // requests under way
	oldest   int // the oldest of them, where answers come in turn
	response
}

// connKept is what a connection keeps when it is closed and opened again.
type reusable struct {
	reader       reader
	mux          multiplexer // the reader, if requests share the connection
	exchanges    []exchange
	outBuffer    []byte // memory for out
	check        *check // nil if any response is right
	firstAttempt bool   // its first attempt to connect is not over
	inBacklog    bool   // it may be in the server's backlog
	queuedIdle   bool   // among the pacer's resting connections
	singleUses   uint8  // how often in a row the server closed it after one response
	thinkUntil   int64  // until when its user thinks
}

// flight is one request under way.
type exchange struct {
	message     *message
	due         int64 // when the request was to be sent
	sent        int64 // when it began to be
	firstByte   int64 // when the first byte of its response came; 0 before
	endOffset   int64 // conn.committed, after it
	connectTime time.Duration
	bytes       int64 // of its response
	active      bool
	counted     bool // it is one of a plan's number of requests
}

// unsent returns how many bytes wait for room.
func (c *conn) unsent() int {
	if c.tls != nil {
		return len(c.out) + len(c.tls.out)
	}
	return len(c.out)
}

// doing says what a connection is waiting for.
func (c *conn) activity() string {
	switch {
	case c.state < open:
		return [...]string{
			closed: "closed", awaitingBacklog: "in front of the server's full queue", opening: "connecting", handshaking: "agreeing on TLS",
		}[c.state]
	case c.inFlight == 0:
		return "resting"
	case c.stage == inBody:
		return "in a response's body"
	case c.unsent() > 0:
		return "sending the request"
	}
	return "waiting for a response"
}

// connect opens connection id, or tries to again, and counts it as one that may wait in
// the server's backlog.
func (w *worker) connect(id int) {
	if c := &w.conns[id]; !c.inBacklog {
		c.inBacklog = true
		w.backlog++
	}
	w.dial(id)
}

// dial opens connection id.
func (w *worker) dial(id int) {
	c := &w.conns[id]
	if c.state != awaitingBacklog {
		c.connectStart = w.nanos() // many may begin since now
	}
	fd, err := w.route.connect(&w.address)
	if err == nil {
		if err = w.register(fd, id); err != nil {
			_ = poll.Close(fd)
		}
	}
	switch {
	case err == nil:
		c.fd, c.state = fd, opening
	case errors.Is(err, poll.ErrAgain):
		c.state = awaitingBacklog
	default:
		c.state = closed
		w.cannotConnect(id, FailedConnect, err.Error())
		return
	}
	if c.state == opening && w.address.socket != "" { // connected at once, or not at all
		w.onConnected(id)
	}
}

// watch has the poller report a new connection. Over TCP that tells also when it is connected. A
// unix socket has room for output each time its peer reads, which is not worth to be told.
func (w *worker) register(fd, id int) error {
	if w.address.socket != "" {
		return w.poller.AddInput(fd, id)
	}
	return w.poller.Add(fd, id)
}

// cannotConnect counts a connection that was not made. One of a number of requests has failed
// with it: otherwise a server that is gone would be called on for ever.
func (w *worker) cannotConnect(id int, kind Failure, text string) {
	w.recordError(kind, text)
	w.failedConnects.Add(1)
	if w.isBusy(id) && w.hasRequestLimit() && w.tally.counting && w.requestBudget.acquire() {
		w.recordSample(&Sample{Due: w.sinceMeasuring(w.now), Sent: w.sinceMeasuring(w.now), Done: w.sinceMeasuring(w.now), Connection: w.connNumber(id), Failure: kind})
		w.requestBudget.finish()
	}
	w.closeConn(id)
}

// accepted notes that the server has taken the connection out of its backlog, or that
// it was given up.
func (w *worker) leaveBacklog(c *conn) {
	if c.inBacklog {
		c.inBacklog = false
		w.backlog--
	}
	w.endFirstAttempt(c)
}

// settle ends the first attempt to connect, for the conductor.
func (w *worker) endFirstAttempt(c *conn) {
	if c.firstAttempt {
		c.firstAttempt = false
		w.pendingConns.Add(-1)
	}
}

// opened is called when the socket is connected.
func (w *worker) onConnected(id int) {
	c := &w.conns[id]
	if err := poll.ConnectError(c.fd); err != nil {
		w.cannotConnect(id, FailedConnect, err.Error())
		return
	}
	w.now = w.nanos()
	c.connectTime = time.Duration(w.now - c.connectStart)
	w.tally.connect.Record(c.connectTime)
	if w.tls == nil {
		w.onReady(id)
		return
	}
	c.state, c.tls = handshaking, newTLSConn(c.fd, w.tls)
	w.continueHandshake(id)
}

// ready is called when requests can be sent.
func (w *worker) onReady(id int) {
	c := &w.conns[id]
	if w.tally.counting {
		w.tally.connects++
	} else {
		w.tally.opened++
	}
	w.markConnected()
	c.state, c.connectTime = open, time.Duration(w.now-c.connectStart)
	if c.mux != nil {
		c.outBuffer = c.mux.appendPreface(c.outBuffer[:0])
		c.out = c.outBuffer
		w.flush(id)
		if c.state != open {
			return
		}
	}
	if w.pacer == nil && w.seenPhase == connecting && w.isBusy(id) && !w.hasRequestLimit() {
		w.enqueue(id, w.now) // the answer tells that the server has accepted
		w.flush(id)
		return
	}
	if w.pacer != nil || !w.isBusy(id) {
		w.leaveBacklog(c)
	}
	w.sendDue(id)
}

// reach notes that the server takes connections.
func (w *worker) markConnected() {
	if !w.connected.Load() {
		w.connected.Store(true)
	}
	if w.failedConnects.Load() > 0 {
		w.failedConnects.Store(0)
	}
}

// hangUp closes a connection on our side. Requests under way on it have been dealt with.
func (w *worker) closeConn(id int) {
	c := &w.conns[id]
	w.leaveBacklog(c)
	if c.fd >= 0 {
		_ = poll.Close(c.fd)
	}
	if c.tls != nil {
		c.tls.release()
	}
	c.reader.reset()
	*c = conn{fd: -1, reusable: c.reusable}
}

// again closes a connection and opens it at once. It is not counted: where a server closes
// all connections, those that are opened anew would leave no turn to those that never were.
func (w *worker) reconnect(id int) {
	w.closeConn(id)
	if !w.paused { // else the next slice opens it
		w.dial(id)
	}
}

// fail counts an error for each request under way, or one, and closes the connection; a sweep
// opens it again.
func (w *worker) failConn(id int, kind Failure, text string) {
	c := &w.conns[id]
	if c.inFlight == 0 {
		w.recordError(kind, text)
	}
	for i := range c.exchanges {
		if f := &c.exchanges[i]; f.active {
			w.recordError(kind, text)
			w.failExchange(id, f, kind)
		}
	}
	w.closeConn(id)
}

// failed ends a request without a response.
func (w *worker) failExchange(id int, f *exchange, kind Failure) {
	w.recordSample(&Sample{
		Connect: f.connectTime, Due: w.sinceMeasuring(f.due), Sent: w.sinceMeasuring(f.sent), First: w.sinceMeasuring(f.firstByte), Done: w.sinceMeasuring(w.now),
		Connection: w.connNumber(id), Request: f.message.index, Failure: kind, Bytes: f.bytes,
	})
	f.active = false
	if f.counted {
		w.requestBudget.finish()
	}
}

// takeBack has the requests that are under way on a connection sent again, on whichever is free.
// It is called when the server closed the connection as it may.
func (w *worker) requeueAll(c *conn) {
	for i := range c.exchanges {
		if c.exchanges[i].active {
			w.requeue(c, &c.exchanges[i])
		}
	}
}

func (w *worker) requeue(c *conn, f *exchange) {
	f.active = false
	c.inFlight--
	if f.counted {
		w.requestBudget.release()
	}
	if w.pacer != nil {
		w.pacer.retries = append(w.pacer.retries, f.due)
	}
}

// serve does what an event allows.
func (w *worker) handleEvent(e *poll.Event) {
	c := &w.conns[e.ID]
	switch {
	case c.state == opening && e.Writable:
		w.onConnected(e.ID)
	case c.state == handshaking:
		w.continueHandshake(e.ID)
		return
	}
	if c.state == open && e.Readable { // an answer may have come before all was sent
		w.receive(e.ID, e.Ended)
	}
	if c.state == open && e.Writable && c.unsent() > 0 && (c.mux != nil || c.stage < inBody) {
		w.flush(e.ID)
	}
}

// ended is called when the server has closed the connection.
func (w *worker) onEOF(id int) {
	c := &w.conns[id]
	switch {
	case c.inFlight == 0: // servers may close what is idle
	case w.isSilentClose(c):
		w.retryOnNewConn(id)
		return
	case c.stage == inBody && c.reader.untilClose():
		w.completeExchange(id, w.currentExchange(c))
		w.requeueAll(c)
	default:
		kind := "connection closed in the middle of a response"
		if c.stage == beforeHead {
			kind = "connection closed before a response"
			if c.unsent() > 0 {
				kind = "connection closed while the request was being sent"
			}
		}
		w.failConn(id, FailedRead, "read: "+kind)
	}
	w.reconnect(id)
}

// broken is called when the connection has failed.
func (w *worker) onError(id int, kind Failure, text string) {
	if w.isSilentClose(&w.conns[id]) {
		w.retryOnNewConn(id)
		return
	}
	w.failConn(id, kind, text)
}

// parted reports whether the server may have closed the connection after its last response,
// as servers may where they cannot announce it, and a request was sent too late.
func (w *worker) isSilentClose(c *conn) bool {
	return !w.protocol.announcesClose() && c.inFlight > 0 && c.stage == beforeHead && c.responses > 0
}

// closesOnce is how often in a row a connection must be closed after one response for us to
// close it ourselves from then on.
const maxSingleUses = 2

// resend has the request sent again, on a new connection.
func (w *worker) retryOnNewConn(id int) {
	c := &w.conns[id]
	if c.responses == 1 {
		c.singleUses++
	}
	if w.tally.counting {
		w.tally.fastCGI.Resent++
	}
	w.requeueAll(c)
	w.reconnect(id)
}
