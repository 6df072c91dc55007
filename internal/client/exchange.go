package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/roundtrip"
)

const (
	// sendEndTimeout limits writing the end of a request after its response has ended.
	// lateBodyTimeout limits waiting for more of its body, as in net/http.
	sendEndTimeout  = 5 * time.Second
	lateBodyTimeout = 50 * time.Millisecond
	// lateResponseTimeout limits the wait for a head after sending the request has failed.
	lateResponseTimeout = time.Second
	// inlineValues is the number of field values in a slab.
	inlineValues = 6
)

// slab is the fixed-size memory of an exchange. Callers may keep parts of it. It is allocated for
// each attempt, unless a Memory owns it.
type slab struct {
	exchange
	response http.Response
	values   [inlineValues]string // the slices of the Header point into it
	whole    roundtrip.WholeBody
}

// exchange is a request, its connection, and its response as far as it has been received. The
// package comment describes its states.
type exchange struct {
	client     *Client
	request    *http.Request
	ctx        context.Context
	trace      *httptrace.ClientTrace
	url        *url.URL        // of the request
	body       *roundtrip.Body // sent after the head; nil if nothing is
	bodyLength int64           // of the request's body, -1 if unknown
	key        key
	overHTTP2  *http2Transport // sends the request instead, if not nil

	proxyAuth string // value of Proxy-Authorization, or ""
	keepAlive bool   // the connection may be kept
	// may be sent twice; computed once, for the caller may change the request
	isRepeatable       bool
	requestedGzip      bool // by the Client, not by the caller
	hasContentEncoding bool // the response has one
	expectsContinue    bool // the body waits for an interim response
	bodyBuffered       bool // the body is in the scratch, behind the head

	conn        *conn
	scratch     *scratch // nil once it is released
	parsed      int      // scratch.in[parsed:filled] is received and not parsed
	filled      int
	receivedAny bool // a byte of a response was received
	mayRetry    bool // the error may not recur on another connection
	sentNothing bool // no byte of the request was sent
	connLost    bool // the connection was closed or broken
	connEOF     bool // the server closed the connection without an error

	mu           sync.Mutex
	ended        bool                   // the connection was closed, kept, or left to the sender
	leftToSender bool                   // the sender will keep or close the connection
	cause        error                  // of an end before the response's end
	progress     progress               // of sending
	sendErr      error                  // why sending has failed, if there is no cause
	headWait     roundtrip.HeadWait     // for the response
	contextWatch roundtrip.ContextWatch // of the context
	// starts a waiting body, or drops a connection whose body is late
	bodyTimer *time.Timer
}

// streamsBody reports whether there is a body that is not in the scratch.
func (x *exchange) streamsBody() bool { return x.body != nil && !x.bodyBuffered }

// begin watches the request's context.
func (x *exchange) begin() {
	if !x.streamsBody() {
		x.progress = bodyEnding
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.contextWatch = roundtrip.WatchContext(x.ctx, x)
}

// ContextEnded implements roundtrip.Ender.
func (x *exchange) ContextEnded() { x.abandon(roundtrip.Cause(x.ctx)) }

// abandon ends the exchange before the response ends. A pending Read or Write fails with cause.
func (x *exchange) abandon(cause error) { x.end(cause, false) }

// finish ends the exchange at the end of the response. isClean reports whether the response allows
// another use of the connection. finish reports whether the connection was kept.
func (x *exchange) finish(isClean bool) bool {
	return x.end(nil, x.keepAlive && isClean && x.conn.Value.isDrained())
}

// end ends the exchange, unless it has ended, and reports whether the connection was kept.
func (x *exchange) end(cause error, isReusable bool) bool {
	x.mu.Lock()
	if x.ended {
		x.mu.Unlock()
		return false
	}
	x.ended, x.cause = true, cause
	progress := x.progress
	isReusable = isReusable && x.sendErr == nil && progress != bodyWaiting
	leftToSender := isReusable && progress != bodySent
	if x.leftToSender = leftToSender; leftToSender {
		_ = x.conn.SetWriteDeadline(time.Now().Add(sendEndTimeout))
	}
	x.contextWatch.Stop(x.ctx, x)
	if x.bodyTimer != nil {
		x.bodyTimer.Stop()
	}
	if leftToSender && progress == bodySending {
		x.bodyTimer = time.AfterFunc(lateBodyTimeout, func() { x.dropIfLeft() })
	}
	x.mu.Unlock()
	switch {
	case leftToSender:
		return true
	case isReusable:
		return x.keepConn()
	}
	x.drop()
	return false
}

// keepConn returns the connection to the pool.
func (x *exchange) keepConn() bool {
	trace := x.trace
	if trace == nil || trace.PutIdleConn == nil {
		return x.conn.Keep()
	}
	kept := x.conn.Keep()
	if kept {
		trace.PutIdleConn(nil)
	} else {
		trace.PutIdleConn(errors.New("tare: too many idle connections"))
	}
	return kept
}

// claimConn reports whether the connection was left to the sender. Only the first call returns
// true, and its caller owns the connection.
func (x *exchange) claimConn() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	leftToSender := x.leftToSender
	if x.leftToSender = false; leftToSender && x.bodyTimer != nil {
		x.bodyTimer.Stop()
	}
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
	x.conn.Drop()
	x.body.CloseLater()
}

// headReceived ends the timeout for the head. If the exchange was abandoned in the meantime, the
// head is too late, and headReceived returns the cause. Over TLS, closing takes some time.
func (x *exchange) headReceived() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.headWait.Finish(x.conn, !x.ended)
	return x.cause
}

// startHeadTimeout starts the timeout for the head. The caller holds mu.
func (x *exchange) startHeadTimeout(d time.Duration) {
	if !x.ended {
		x.headWait.Start(x.conn, d)
	}
}

// readError returns an error that explains why a read failed.
func (x *exchange) readError(err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	isLate := isTimeout(err)
	x.connLost = x.cause == nil && (x.sendErr != nil || !isLate)
	switch {
	case x.cause != nil:
		return x.cause
	case x.sendErr != nil && !x.headWait.Received:
		return x.newError(Server, CannotSend, "sending the request to", x.sendErr)
	case x.headWait.HasDeadline && isLate:
		return x.newError(Server, TimedOut, "waiting for the response from", errHeaderTimeout)
	case errors.Is(err, io.EOF) && !x.receivedAny:
		return x.newError(Server, Closed, "waiting for the response from", errNoResponse)
	case errors.Is(err, io.EOF):
		x.connEOF = true
		err = io.ErrUnexpectedEOF
	}
	return x.newError(Server, Closed, "reading the response from", err)
}

// newError returns an error of this exchange.
func (x *exchange) newError(side Side, kind Kind, during string, err error) *Error {
	if side == Server && x.usesAbsoluteForm() {
		side = Proxy
	}
	return &Error{Side: side, Kind: kind, CanRetry: x.sentNothing || x.conn == nil || x.isRepeatable, During: during,
		Addr: x.key.addr(), Err: err}
}
