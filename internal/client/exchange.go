package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

const (
	// lateBodyTimeout limits sending the rest of a request whose response has ended, as in net/http.
	lateBodyTimeout = 50 * time.Millisecond
	// abortTimeout limits sending the message that abandons a request.
	abortTimeout = 50 * time.Millisecond
	// lateResponseTimeout limits the wait for a head after sending the request has failed.
	lateResponseTimeout = time.Second
	// inlineValues is the number of field values in a slab.
	inlineValues = 6
)

// slab is the fixed-size memory of an exchange. Callers may keep parts of it. It is allocated for
// each attempt, unless a Memory owns it. Its 512 bytes fill a size class.
type slab struct {
	exchange
	response http.Response
	values   [inlineValues]string // the slices of the Header point into it
	whole    WholeBody
}

// exchange is a request, its connection, and its response as far as it has been received. The
// package comment describes its states.
type exchange struct {
	outgoing
	conn    *conn
	scratch *scratch // nil once it is released

	mu           sync.Mutex
	cause        error        // why the exchange ended before the response did
	sendErr      error        // why sending has failed, if there is no cause
	contextWatch contextWatch // of the context
	// starts a waiting body, or drops a connection whose body is late
	bodyTimer    *time.Timer
	headIsOver   bool     // the head of the response has been received
	hasDeadline  bool     // the connection has a read deadline for the head
	progress     progress // of sending
	ended        bool     // the connection was closed, kept, or left to the sender
	leftToSender bool     // the sender will keep or close the connection

	// mu does not guard the fields below: the goroutine that receives uses them.
	receivedAny   bool // a byte of a response was received
	mayRetry      bool // the error may not recur on another connection
	isUnprocessed bool // no byte of the request was sent, or so the server reports over HTTP/2
	bodyUntouched bool // nothing was read of the body, although it is not in the scratch
	openedConn    bool // for this exchange
	connEOF       bool // the server closed the connection without an error
	isDraining    bool // the body is read only for the sake of the connection
	isOver        bool // it has ended, and no other goroutine refers to it
}

// outgoing is the request of an exchange. It passes to another exchange if it is sent again.
type outgoing struct {
	client     *Client
	request    *http.Request
	ctx        context.Context
	trace      *httptrace.ClientTrace
	body       *requestBody                  // sent after the head; nil if nothing is
	getBody    func() (io.ReadCloser, error) // returns the body again; nil if that is not possible
	bodyLength int64                         // of the request's body, -1 if unknown
	key        key
	attempts   uint8 // earlier attempts of the request
	isEncoded  bool  // the request is in the scratch
	keepAlive  bool  // the connection may be kept
	// the request may be sent twice; computed once, because the caller may change the request
	isRepeatable    bool
	expectsContinue bool // the body waits for an interim response
	bodyBuffered    bool // the body is in the scratch
	requestedGzip   bool // by the Client, not by the caller
}

// prepare determines where the request goes, and writes it into the scratch.
func (x *exchange) prepare() error {
	if !x.client.config.Verbatim {
		x.trace = httptrace.ContextClientTrace(x.ctx)
	}
	if call := x.scratch.call; call != nil {
		x.isRepeatable = call.IsRepeatable
	} else {
		x.isRepeatable = isRepeatable(x.request)
	}
	codec := x.scratch.codec
	if err := codec.route(x); err != nil {
		return err
	}
	if x.ctx.Err() != nil {
		return contextCause(x.ctx)
	}
	// otherwise the request is encoded once its connection is known
	c := x.client
	x.isEncoded = !c.pool.limits.onlyHTTP2 && (!c.protocols.HTTP2() || !x.key.tls || !c.pool.isHTTP2(x.key))
	if !x.isEncoded {
		return nil
	}
	return codec.encode(x)
}

// streamsBody reports whether there is a body that is not in the scratch.
func (x *exchange) streamsBody() bool { return x.body != nil && !x.bodyBuffered }

// ContextEnded implements Ender.
func (x *exchange) ContextEnded() { x.abandon(contextCause(x.ctx)) }

// abandon ends the exchange before the response ends. A pending Read or Write fails with cause.
func (x *exchange) abandon(cause error) { x.end(cause, false) }

// finish ends the exchange at the end of the response. isClean reports whether the response allows
// another use of the connection.
func (x *exchange) finish(isClean bool) {
	x.end(nil, x.keepAlive && isClean && x.conn.isDrained())
}

// end ends the exchange, unless it has ended.
func (x *exchange) end(cause error, isReusable bool) {
	x.mu.Lock()
	if x.ended {
		x.mu.Unlock()
		return
	}
	x.ended, x.cause = true, cause
	x.reportEnd(0)
	progress := x.progress
	isReusable = isReusable && x.sendErr == nil && progress != bodyWaiting
	leftToSender := isReusable && progress != bodySent
	x.leftToSender = leftToSender
	x.isOver = x.contextWatch.stop(x.ctx, x) && !x.streamsBody()
	if x.bodyTimer != nil {
		x.bodyTimer.Stop()
	}
	if leftToSender {
		x.bodyTimer = time.AfterFunc(lateBodyTimeout, func() { x.dropIfLeft() })
	}
	x.mu.Unlock()
	x.conn.raw.unwatch()
	switch {
	case leftToSender:
	case isReusable:
		x.keepConn()
	default:
		if m := x.client.protocol.abortMessage; m != nil && cause != nil && progress >= bodyEnding &&
			x.conn.SetWriteDeadline(time.Now().Add(abortTimeout)) == nil {
			_, _ = x.conn.Write(m) // a server that reads also sees that the connection ends
		}
		x.drop()
	}
}

// keepConn returns the connection to the pool.
func (x *exchange) keepConn() {
	var err error
	if !x.conn.keep() {
		err = errTooManyIdle
	}
	if trace := x.trace; trace != nil && trace.PutIdleConn != nil {
		trace.PutIdleConn(err)
	}
}

// claimConn reports whether the connection was left to the sender. Only the first call returns
// true, and its caller owns the connection.
func (x *exchange) claimConn() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	leftToSender := x.leftToSender
	x.leftToSender = false
	return leftToSender
}

// dropIfLeft closes the connection if it was left to the sender, and reports whether it was.
func (x *exchange) dropIfLeft() bool {
	leftToSender := x.claimConn()
	if leftToSender {
		x.drop()
	}
	return leftToSender
}

// drop closes the connection.
func (x *exchange) drop() {
	x.conn.drop()
	x.body.closeLater()
}

// headReceived ends the timeout for the head. If the exchange was abandoned in the meantime, the
// head is too late, and headReceived returns the cause. Over TLS, a head may arrive while the
// connection is being closed.
func (x *exchange) headReceived() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.headIsOver = true
	if x.hasDeadline {
		x.hasDeadline = false
		_ = x.conn.SetReadDeadline(time.Time{})
	}
	return x.cause
}

// startHeadTimeout starts the timeout for the head, unless d is 0. The caller holds mu.
func (x *exchange) startHeadTimeout(d time.Duration) {
	if d > 0 && !x.ended && !x.headIsOver {
		x.hasDeadline = true
		_ = x.conn.SetReadDeadline(time.Now().Add(d)) // an error shows at the next Read
	}
}

// sendProgress returns how much of the request has been sent. Sending a body may go on until the
// response has been read.
func (x *exchange) sendProgress() progress {
	if !x.streamsBody() {
		return bodySent
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.progress
}

// readError returns an error that explains why a read failed.
func (x *exchange) readError(err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	isLate := isTimeout(err)
	x.mayRetry = !x.openedConn && !x.receivedAny && x.cause == nil && (x.sendErr != nil || !isLate)
	switch {
	case x.cause != nil:
		return x.cause
	case x.sendErr != nil && !x.headIsOver:
		return x.newError(Server, CannotSend, "sending the request to", x.sendErr)
	case x.hasDeadline && isLate:
		late := noResponseWithin(x.client.settings.ResponseHeaderTimeout, headTimeout)
		return x.newError(Server, TimedOut, whileWaiting, late)
	case errors.Is(err, io.EOF) && !x.receivedAny:
		return x.newError(Server, Closed, whileWaiting, noResponse())
	case errors.Is(err, io.EOF):
		x.connEOF = true
		err = io.ErrUnexpectedEOF
	}
	return x.newError(Server, Closed, x.whileReading(), err)
}

// malformed returns an error about received bytes.
func (x *exchange) malformed(err error) error {
	return x.newError(Server, Malformed, x.whileReading(), err)
}

func (x *exchange) newError(side Side, kind Kind, during string, err error) *Error {
	if side == Server && x.usesAbsoluteForm() {
		side = Proxy
	}
	return &Error{Side: side, Kind: kind, CanRetry: x.isUnprocessed || x.conn == nil || x.isRepeatable, During: during,
		Addr: x.key.addr(), Err: err}
}
