package h2

import (
	"io"
	"net/http"

	"github.com/tarehq/tare/internal/connection"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// sendFunc sends a piece of content, or refuses it.
type sendFunc func(b []byte) connection.Delivery

// Stream is a request and its response. One goroutine may send while another receives. The
// package comment describes its states.
type Stream struct {
	conn      *Conn
	sawFrames uint64
	id        uint32
	hasNoBody bool // the response to HEAD

	// The connection's mu guards the fields below. Each piece of a body needs the first ones: they
	// share a cache line or two, which is a miss for each event of many silent streams.
	hasHead      bool
	inEnded      bool     // the response is complete
	isClosed     bool     // does not count toward the peer's limit any more
	isDelivering bool     // deliver runs, without mu
	deliver      sendFunc // of Deliver, while that waits
	window       wire.ReceiveWindow
	left         int64 // bytes of content that are missing; -1 if unknown
	bytesIn      int64 // of HEADERS and DATA frames
	content      content
	err          error         // why it ended before its response was complete
	received     chan struct{} // signals the goroutine that receives
	mayProceed   chan struct{} // signals the goroutine that sends; nil until it waits
	sendWindow   int32
	outEnded     bool // END_STREAM was sent
	heads        []*Head
	interims     int // heads that were not final
	// waitingBytes is the size of interim heads in heads
	waitingBytes int
	trailer      http.Header
	bytesOut     int64
}

// Request is what Open sends.
type Request struct {
	// Head is a HEADERS frame without its stream identifier. Its fields have the size ListSize.
	Head     []byte
	ListSize int
	Body     []byte // sent with the head, as far as windows allow that at once
	IsLast   bool   // nothing follows Body
	IsHead   bool   // the method is HEAD
	// NeedsExtendedConnect is set for an extended CONNECT (RFC 8441).
	NeedsExtendedConnect bool
}

// requestCredit is how many units of the ledger a request adds. The peer may respond to it with
// WINDOW_UPDATE and PING.
const requestCredit = 8

// Open sends a request on the reserved stream, which is new. It returns how many bytes of the body
// were sent. If it fails, nothing was sent.
func (c *Conn) Open(st *Stream, r *Request) (sent int, err error) {
	st.conn, st.hasNoBody, st.left = c, r.IsHead, -1
	st.received = make(chan struct{}, 1)
	st.window = wire.NewReceiveWindow(c.config.StreamWindow)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved--
	switch {
	case c.err != nil:
		return 0, &Error{Kind: c.err.Kind, IsUnprocessed: true, Err: c.err.Err}
	case c.goAway != nil:
		return 0, &Error{Kind: Closed, IsUnprocessed: true, Err: c.goAway}
	case int64(r.ListSize) > int64(c.peer.maxHeadList):
		return 0, ErrHeadTooLarge
	case r.NeedsExtendedConnect && !c.peer.extendedConnect:
		return 0, ErrNoExtendedConnect
	}
	st.id, st.sawFrames, st.sendWindow = c.nextID, c.health.frames, c.peer.initialWindow
	c.nextID += 2
	c.streams[st.id] = st
	c.ledger.Credit(requestCredit)
	st.appendBlockLocked(r.Head, r.IsLast && len(r.Body) == 0)
	if len(r.Body) > 0 {
		sent = st.appendDataLocked(r.Body, r.IsLast)
	}
	c.flushLocked()
	if c.nextID > wire.MaxStreamID-1<<16 { // streams that are reserved remain
		go c.drain()
	}
	return sent, nil
}

// appendDataLocked appends DATA as far as the windows and the room in the output allow, and returns
// the number of bytes.
func (st *Stream) appendDataLocked(b []byte, isLast bool) (sent int) {
	c, o := st.conn, &st.conn.output
	sent = max(0, min(len(b), int(st.sendWindow), int(c.sendWindow), maxOut-o.pending()))
	isEnd := isLast && sent == len(b)
	if st.outEnded || sent == 0 && !isEnd || o.pending() >= maxOut {
		return 0
	}
	at := len(o.buf)
	o.buf = wire.AppendData(o.buf, st.id, b[:sent], isEnd)
	st.outEnded = isEnd
	st.sendWindow -= int32(sent)
	c.sendWindow -= int32(sent)
	c.ledger.CreditData(sent, sent)
	st.bytesOut += int64(len(o.buf) - at)
	return sent
}

// Write sends content. It waits for the peer's windows. With isLast, it ends the request.
func (st *Stream) Write(b []byte, isLast bool) error {
	return st.send(b, isLast, nil)
}

// WriteTrailer ends the request with a trailer section: a block as in Request.Head.
func (st *Stream) WriteTrailer(block []byte) error { return st.send(nil, false, block) }

func (st *Stream) send(b []byte, isLast bool, trailer []byte) error {
	c := st.conn
	c.mu.Lock()
	for {
		if err := st.sendErrorLocked(); err != nil {
			c.mu.Unlock()
			return err
		}
		b = b[st.appendDataLocked(b, isLast):]
		if trailer != nil {
			st.appendBlockLocked(trailer, true)
		}
		c.flushHereLocked()
		if len(b) == 0 && (st.outEnded || !isLast && trailer == nil) {
			break
		}
		if st.canSendLocked(len(b)) {
			continue
		}
		if st.mayProceed == nil {
			st.mayProceed = make(chan struct{}, 1)
		}
		c.senders++
		c.mu.Unlock()
		<-st.mayProceed
		c.mu.Lock()
		c.senders--
	}
	closed := st.closeIfEndedLocked()
	c.mu.Unlock()
	st.notifyClosed(closed)
	return nil
}

// appendBlockLocked appends a head or a trailer section.
func (st *Stream) appendBlockLocked(block []byte, isLast bool) {
	o := &st.conn.output
	at := len(o.buf)
	out := append(o.buf, block...)
	wire.SetStreamID(out[at:], st.id)
	if st.outEnded = isLast; isLast {
		wire.AddFrameFlags(out[at:], wire.EndStream)
	}
	o.buf = wire.EndBlock(out, at, wire.MinMaxFrameSize)
	st.bytesOut += int64(len(o.buf) - at)
}

// canSendLocked reports whether a stream that wants to send n bytes of content can send some.
func (st *Stream) canSendLocked(n int) bool {
	c := st.conn
	return st.sendErrorLocked() != nil ||
		c.output.pending() < maxOut && (n == 0 || st.sendWindow > 0 && c.sendWindow > 0)
}

func (st *Stream) sendErrorLocked() error {
	switch {
	case st.err != nil:
		return st.err
	case st.isClosed || st.outEnded:
		return ErrStreamClosed
	}
	return nil
}

// wakeSendersLocked wakes all goroutines that wait to send.
func (c *Conn) wakeSendersLocked() {
	if c.senders == 0 {
		return
	}
	for _, st := range c.streams {
		signal(st.mayProceed)
	}
}

// signal wakes the goroutine that waits on c, which may be nil.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// AwaitHead waits for the next head: those of interim responses precede the final one. It may not
// be called after the final one.
func (st *Stream) AwaitHead() (*Head, error) {
	c := st.conn
	c.mu.Lock()
	for len(st.heads) == 0 && st.err == nil {
		c.mu.Unlock()
		<-st.received
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	if _, ofPeer := st.err.(*Error); len(st.heads) == 0 || st.err != nil && !ofPeer { //nolint:errorlint // not wrapped
		return nil, st.err
	}
	h := st.heads[0]
	st.heads = st.heads[1:]
	if h.Status < http.StatusOK {
		st.waitingBytes -= h.size
	}
	return h, nil
}

// Read reads from the content of the response. It returns io.EOF at its end.
func (st *Stream) Read(b []byte) (n int, err error) {
	c := st.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case len(b) == 0:
			return 0, nil
		case st.content.first != nil:
			n = st.content.take(c.config, b)
			st.returnWindowLocked(n)
			if st.content.first == nil && st.inEnded {
				err = io.EOF
			}
			return n, err
		case st.inEnded:
			return 0, io.EOF
		case st.err != nil:
			return 0, st.err
		}
		c.mu.Unlock()
		<-st.received
		c.mu.Lock()
	}
}

// HasInput reports whether Read returns at once.
func (st *Stream) HasInput() bool {
	st.conn.mu.Lock()
	defer st.conn.mu.Unlock()
	return st.hasInputLocked()
}

func (st *Stream) hasInputLocked() bool {
	return st.content.first != nil || st.inEnded || st.err != nil
}

// Deliver waits until Read returns at once. Meanwhile the goroutine that reads from the connection
// passes content to send, until that does not return Delivered. send may be nil. It must not wait,
// nor keep its argument.
func (st *Stream) Deliver(send sendFunc) {
	c := st.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for st.deliver = send; st.isDelivering || !st.hasInputLocked(); {
		c.mu.Unlock()
		<-st.received
		c.mu.Lock()
	}
	st.deliver = nil
}

// deliverLocked passes content to the goroutine that waits in Deliver, and reports whether that has
// taken it. It releases the mutex meanwhile.
func (st *Stream) deliverLocked(b []byte) bool {
	c, deliver := st.conn, st.deliver
	if deliver == nil || st.hasInputLocked() {
		return false
	}
	st.isDelivering = true
	c.mu.Unlock()
	how := deliver(b)
	c.mu.Lock()
	if st.isDelivering = false; how != connection.Delivered {
		st.deliver = nil
	}
	if how == connection.Refused {
		return false
	}
	st.returnWindowLocked(len(b))
	if st.hasInputLocked() { // it has failed meanwhile
		signal(st.received)
	}
	return true
}

// Trailer returns the trailer section of a response that is complete, or nil.
func (st *Stream) Trailer() http.Header { return st.trailer }

// Traffic returns the numbers of bytes that were sent and received, with the headers of frames.
func (st *Stream) Traffic() (sent, received int64) {
	st.conn.mu.Lock()
	defer st.conn.mu.Unlock()
	return st.bytesOut, st.bytesIn
}

// returnWindowLocked lets the peer send n more bytes.
func (st *Stream) returnWindowLocked(n int) {
	c := st.conn
	if c.err != nil {
		return
	}
	out := c.output.buf
	if more := c.window.Return(n); more > 0 {
		out = wire.AppendWindowUpdate(out, 0, more)
	}
	if !st.isClosed {
		if more := st.window.Return(n); more > 0 {
			out = wire.AppendWindowUpdate(out, st.id, more)
		}
	}
	c.output.buf = out
	c.flushLocked()
}

// Abort ends a stream that is not closed: its methods return cause. With drops it drops content that
// was not read.
func (st *Stream) Abort(cause error, drops bool) {
	c := st.conn
	c.mu.Lock()
	if !st.isClosed {
		if c.health.frames == st.sawFrames {
			c.suspectLocked()
		}
		st.failLocked(cause)
	}
	closed := st.resetLocked(wire.Cancel)
	if drops {
		st.returnWindowLocked(st.content.clear(c.config))
	}
	c.mu.Unlock()
	st.notifyClosed(closed)
}

// failLocked closes a stream, with an error if its response is not complete, and wakes all waiters.
func (st *Stream) failLocked(err error) {
	if st.err == nil && !st.inEnded {
		st.err = err
	}
	st.isClosed = true
	signal(st.received)
	signal(st.mayProceed)
}

// resetLocked sends RST_STREAM, unless the stream is closed. It reports whether it closed it.
func (st *Stream) resetLocked(code wire.ErrorCode) (closed bool) {
	c := st.conn
	if c.streams[st.id] != st {
		return false
	}
	c.lateBytes += int64(max(0, st.window.Available()))
	c.ledger.Credit(requestCredit)
	c.output.buf = wire.AppendRSTStream(c.output.buf, st.id, code)
	c.flushLocked()
	return st.closeLocked()
}

// closeIfEndedLocked closes a stream whose request and response are complete. If only the response
// is, the peer does not need the rest of the request.
func (st *Stream) closeIfEndedLocked() (closed bool) {
	switch {
	case !st.inEnded || st.conn.streams[st.id] != st:
		return false
	case !st.outEnded:
		return st.resetLocked(wire.NoError)
	}
	return st.closeLocked()
}

func (st *Stream) closeLocked() bool {
	delete(st.conn.streams, st.id)
	st.isClosed = true
	signal(st.mayProceed)
	return true
}

// notifyClosed reports that the stream was closed, if it was. The caller does not hold mu.
func (st *Stream) notifyClosed(closed bool) {
	if closed {
		st.conn.host.StreamClosed()
	}
}
