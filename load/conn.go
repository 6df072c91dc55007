package load

import (
	"errors"
	"time"

	"github.com/tarehq/tare/internal/poll"
)

// connState is the state of a connection. Its transitions are:
//
//	closed → opening            connect was called
//	closed → awaitingBacklog    the backlog of the server's unix socket is full
//	awaitingBacklog → opening   the next sweep connects again
//	opening → handshaking       the socket is connected, and the Plan uses TLS
//	opening, handshaking → open requests can be sent
//	any state → closed          error, timeout or end of the connection
//
// Closed connections are reopened at once. If maxFruitless in a row ended soon and without a
// response, a sweep reopens them, so that a server that closes all connections is not flooded.
type connState uint8

const (
	closed          connState = iota
	awaitingBacklog           // the backlog of the server's unix socket is full; a sweep tries again
	opening                   // connect was called
	handshaking               // the TLS handshake is in progress
	open                      // requests can be sent
)

// conn is a connection. Except for reusable, closing it resets its fields.
type conn struct {
	reusable      reusable
	fd            int
	state         connState
	last          bool          // no more requests may be sent on it
	outputWatched bool          // the poller reports when it is writable
	sentRequests  int           // on this connection
	responses     int           // received on this connection
	connectStart  int64         // on the worker's clock
	connectTime   time.Duration // time to connect; 0 after the first request
	out           []byte        // output not sent yet
	queuedBytes   int64         // bytes of requests appended to its output so far
	tls           *tlsConn      // nil without TLS

	inFlight int // number of active exchanges
	oldest   int // slot of the oldest, if responses arrive in order
	response response
}

// reusable is the part of a conn that survives reopening.
type reusable struct {
	reader       reader
	http2        *http2Reader // the reader, if exchanges are concurrent; otherwise nil
	exchanges    []exchange
	outBuffer    []byte // memory for out
	check        *check // nil if only the status matters
	firstAttempt bool   // its first attempt to connect is still in progress
	inBacklog    bool   // the server may not have accepted it yet
	queuedIdle   bool   // in the pacer's queue of idle connections
	singleUses   uint8  // times in a row that the server closed it after one response
	fruitless    uint8  // times in a row that it ended without a response, at most maxFruitless
	thinkUntil   int64  // end of its think time
}

// exchange is a request and its response. Times are on the worker's clock.
type exchange struct {
	message     *message
	due         int64 // when the schedule required the request
	sent        int64 // when sending began
	firstByte   int64 // when the first byte of its response arrived; 0 before
	endOffset   int64 // conn.queuedBytes after the request
	connectTime time.Duration
	bytes       int64 // received of its response
	active      bool
	counted     bool // it counts toward Plan.Requests
}

func (c *conn) unsent() int {
	if c.tls != nil {
		return len(c.out) + len(c.tls.out)
	}
	return len(c.out)
}

// isBlocked reports whether the server's settings allow no stream at all.
func (c *conn) isBlocked() bool {
	return c.state == open && c.inFlight == 0 && c.reusable.http2 != nil && !c.reusable.http2.acceptsRequest(0)
}

// activity describes what a connection is doing, for timeout errors.
func (c *conn) activity() string {
	switch {
	case c.state < open:
		return [...]string{
			closed: "closed", awaitingBacklog: "waiting for the server's full backlog", opening: "connecting",
			handshaking: "in the TLS handshake",
		}[c.state]
	case c.isBlocked():
		return "the server allows no stream"
	case c.inFlight == 0:
		return "idle"
	case c.response.stage == inBody:
		return "receiving the response's body"
	case c.unsent() > 0:
		return "sending the request"
	}
	return "waiting for a response"
}

// connect opens connection id and counts it in the server's backlog.
func (w *worker) connect(id int) {
	if c := &w.conns[id]; !c.reusable.inBacklog {
		c.reusable.inBacklog = true
		w.backlog++
	}
	w.dial(id)
}

func (w *worker) dial(id int) {
	c := &w.conns[id]
	if c.state != awaitingBacklog {
		c.connectStart = w.nanos() // w.now may be stale after many dials
	}
	fd, err := w.route.connect(&w.job.address)
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
	if c.state == opening && w.job.address.socket != "" { // unix sockets connect at once or fail
		w.onConnected(id)
	}
}

// register adds a new connection to the poller. Over TCP, writability also signals that it is
// connected. A unix socket becomes writable each time its peer reads, so those events are not
// requested.
func (w *worker) register(fd, id int) error {
	if w.job.address.socket != "" {
		return w.poller.AddInput(fd, id)
	}
	return w.poller.Add(fd, id)
}

// cannotConnect counts a connection that failed to open. With a number of Requests, one of them
// fails with it: otherwise the run would never end if the server is gone.
func (w *worker) cannotConnect(id int, kind Failure, text string) {
	w.recordError(kind, text)
	w.run.failedConnects.Add(1)
	if w.isBusy(id) && w.job.hasRequestLimit() && w.tally.counting && w.run.requestBudget.acquire() {
		w.recordSample(id, &exchange{due: w.now, sent: w.now}, Sample{Failure: kind})
		w.run.requestBudget.finish()
	}
	w.closeFailed(id)
}

// leaveBacklog records that the server has accepted the connection or that it was closed.
func (w *worker) leaveBacklog(c *conn) {
	if c.reusable.inBacklog {
		c.reusable.inBacklog = false
		w.backlog--
	}
	w.endFirstAttempt(c)
}

// endFirstAttempt reports to the coordinator that the first attempt to connect is over.
func (w *worker) endFirstAttempt(c *conn) {
	if c.reusable.firstAttempt {
		c.reusable.firstAttempt = false
		w.run.pendingConns.Add(-1)
	}
}

func (w *worker) onConnected(id int) {
	c := &w.conns[id]
	if err := poll.ConnectError(c.fd); err != nil {
		w.cannotConnect(id, FailedConnect, err.Error())
		return
	}
	w.now = w.nanos()
	c.connectTime = time.Duration(w.now - c.connectStart)
	w.tally.Connect.Record(c.connectTime)
	if w.job.tls == nil {
		w.onReady(id)
		return
	}
	c.state, c.tls = handshaking, newTLSConn(c.fd, w.job.tls)
	w.continueHandshake(id)
}

func (w *worker) onReady(id int) {
	c := &w.conns[id]
	if w.tally.counting {
		w.tally.Connects++
	} else {
		w.tally.Opened++
	}
	w.markConnected()
	c.state, c.connectTime = open, time.Duration(w.now-c.connectStart)
	if c.reusable.http2 != nil {
		c.reusable.outBuffer = c.reusable.http2.appendPreface(c.reusable.outBuffer[:0])
		c.out = c.reusable.outBuffer
		w.flush(id)
		if c.state != open {
			return
		}
	}
	if w.pacer == nil && w.seenPhase == connecting && w.isBusy(id) && !w.job.hasRequestLimit() {
		w.enqueue(id, w.now) // its response shows that the server has accepted
		w.flush(id)
		return
	}
	if w.pacer != nil || !w.isBusy(id) {
		w.leaveBacklog(c)
	}
	w.sendDue(id)
}

func (w *worker) markConnected() {
	if !w.run.connected.Load() {
		w.run.connected.Store(true)
	}
	if w.run.failedConnects.Load() > 0 {
		w.run.failedConnects.Store(0)
	}
}

// maxFruitless is the number of times in a row that a connection may end without a response until
// the worker reopens it only in a sweep.
const maxFruitless = 3

// closeConn closes a connection. Its exchanges must have been ended or requeued. It reports whether
// the connection may be reopened at once.
func (w *worker) closeConn(id int) (mayReopen bool) {
	c := &w.conns[id]
	w.leaveBacklog(c)
	if c.responses > 0 {
		c.reusable.fruitless = 0
	} else {
		c.reusable.fruitless = min(c.reusable.fruitless+1, maxFruitless)
	}
	mayReopen = !w.paused && (c.reusable.fruitless < maxFruitless || w.now-c.connectStart > int64(sweepEvery))
	if c.fd >= 0 {
		_ = poll.Close(c.fd)
	}
	if c.tls != nil {
		c.tls.release()
	}
	c.reusable.reader.reset()
	*c = conn{fd: -1, reusable: c.reusable}
	return mayReopen
}

// reconnect closes a connection and reopens it. It does not count in the backlog. If it did,
// connections that a server closes after each response would keep others from ever opening.
func (w *worker) reconnect(id int) {
	if w.closeConn(id) {
		w.dial(id)
	}
}

// closeFailed closes a connection after an error. The caller may be in the middle of an exchange,
// so the worker's loop reopens it.
func (w *worker) closeFailed(id int) {
	if w.closeConn(id) {
		w.failed.push(id)
	}
}

// failConn counts an error for each active exchange, or one if there is none, and closes the
// connection.
func (w *worker) failConn(id int, kind Failure, text string) {
	c := &w.conns[id]
	if c.inFlight == 0 {
		w.recordError(kind, text)
	}
	for i := range c.reusable.exchanges {
		if f := &c.reusable.exchanges[i]; f.active {
			w.recordError(kind, text)
			w.failExchange(id, f, kind)
		}
	}
	w.closeFailed(id)
}

func (w *worker) failExchange(id int, f *exchange, kind Failure) {
	w.recordSample(id, f, Sample{Request: f.message.index, Failure: kind, Bytes: f.bytes})
	f.active = false
	if f.counted {
		w.run.requestBudget.finish()
	}
}

// requeueAll makes the connection's active requests due again, on any free connection. It is called
// when the server closed the connection in a way that the protocol allows.
func (w *worker) requeueAll(c *conn) {
	for i := range c.reusable.exchanges {
		if c.reusable.exchanges[i].active {
			w.requeue(c, &c.reusable.exchanges[i])
		}
	}
}

func (w *worker) requeue(c *conn, f *exchange) {
	f.active = false
	c.inFlight--
	if f.counted {
		w.run.requestBudget.release()
	}
	if w.pacer != nil {
		w.pacer.retries = append(w.pacer.retries, f.due)
	}
}

func (w *worker) handleEvent(e *poll.Event) {
	c := &w.conns[e.ID]
	switch {
	case c.state == opening && e.Writable:
		w.onConnected(e.ID)
	case c.state == handshaking:
		w.continueHandshake(e.ID)
		return
	}
	if c.state == open && e.Readable { // a response may arrive before the request was sent
		w.receive(e.ID, e.Ended)
	}
	if c.state == open && e.Writable && c.unsent() > 0 && (c.reusable.http2 != nil || c.response.stage < inBody) {
		w.flush(e.ID)
	}
}

func (w *worker) onEOF(id int) {
	c := &w.conns[id]
	switch {
	case c.inFlight == 0: // servers may close idle connections
	case w.isSilentClose(c):
		w.retryOnNewConn(id)
		return
	case c.response.stage == inBody && c.reusable.reader.untilClose():
		w.completeExchange(id, w.currentExchange(c))
		w.requeueAll(c)
	default:
		kind := "connection closed in the middle of a response"
		if c.response.stage == beforeHead {
			kind = "connection closed before a response"
			if c.unsent() > 0 {
				kind = "connection closed while the request was being sent"
			}
		}
		w.failConn(id, FailedRead, "read: "+kind)
		return
	}
	w.reconnect(id)
}

func (w *worker) onError(id int, kind Failure, text string) {
	if w.isSilentClose(&w.conns[id]) {
		w.retryOnNewConn(id)
		return
	}
	w.failConn(id, kind, text)
}

// isSilentClose reports whether the server may have closed the connection after its last response,
// before it received the request.
func (w *worker) isSilentClose(c *conn) bool {
	return isFastCGI(w.job.protocol) && c.inFlight > 0 &&
		c.response.stage == beforeHead && c.responses > 0
}

// maxSingleUses is the number of times in a row that the server may close a connection after one
// response. From then on, the worker itself closes it after each response.
const maxSingleUses = 2

// retryOnNewConn reopens the connection and makes its request due again.
func (w *worker) retryOnNewConn(id int) {
	c := &w.conns[id]
	if c.responses == 1 {
		c.reusable.singleUses++
	}
	if w.tally.counting {
		w.tally.FastCGI.Resent++
	}
	w.requeueAll(c)
	w.reconnect(id)
}
