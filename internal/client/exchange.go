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
	// endTime bounds the end of sending a request whose response has ended, and lateTime how long
	// its body is waited for, as in net/http.
	sendEndTimeout  = 5 * time.Second
	lateBodyTimeout = 50 * time.Millisecond
	// answerTime bounds how long a head may take from a server that takes no more.
	lateResponseTimeout = time.Second
	// inlineValues is how many field values a slab has room for.
	inlineValues = 6
)

// slab is the memory of an exchange that has a fixed size. It is allocated for the request and
// left to the garbage collector, unless that is a Memory's: callers keep what they are given.
type slab struct {
	exchange
	response http.Response
	values   [inlineValues]string // what the Header's slices point into
	whole    roundtrip.WholeBody
}

// exchange is a request, the connection that it has, and the response as far as it has come.
type exchange struct {
	client     *Client
	request    *http.Request
	ctx        context.Context
	trace      *httptrace.ClientTrace
	url        *url.URL        // what is asked for
	body       *roundtrip.Body // what is sent after the head; nil if nothing is
	bodyLength int64           // of the request's body, -1 if it is not known
	key        key
	overHTTP2  *http2Transport // what sends the request instead

	proxyAuth          string // what the proxy is told
	keepAlive          bool   // the connection may be
	isRepeatable       bool   // the request may be sent twice. Who still sends its body may ask that when the caller has it back
	requestedGzip      bool   // we have asked for gzip
	hasContentEncoding bool   // the response is, somehow
	expectsContinue    bool   // the body waits for an interim response
	bodyBuffered       bool   // the body is in the scratch

	conn        *conn
	scratch     *scratch // of whoever reads; nil once it is not needed
	parsed      int      // what was not looked at lies in scratch.in[from:to]
	filled      int
	receivedAny bool // something has come
	mayRetry    bool // it failed in a way in which another attempt may help
	sentNothing bool // nothing was sent at all
	connLost    bool // the connection was found to be closed or broken
	connEOF     bool // the server has ended the connection, as it should

	mu           sync.Mutex
	ended        bool                   // the connection was closed, given back, or left to the sender
	leftToSender bool                   // the last of these: the sender gives it back
	cause        error                  // why it was closed before the response's end
	progress     progress               // of sending
	sendErr      error                  // why sending has ended early, if there is no cause
	headWait     roundtrip.HeadWait     // for the response
	contextWatch roundtrip.ContextWatch // of the context
	bodyTimer    *time.Timer            // begins to send a body that waits, or gives up one that is late
}

// streams reports whether a body is sent that is not in the scratch.
func (x *exchange) streamsBody() bool { return x.body != nil && !x.bodyBuffered }

// begin watches the context, if it can end.
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

// abandon ends the exchange before the response does. Who reads or writes then gets the cause.
func (x *exchange) abandon(cause error) { x.end(cause, false) }

// finish ends the exchange when the response has ended. clean is whether the connection can be
// used again as far as the response goes.
func (x *exchange) finish(isClean bool) bool {
	return x.end(nil, x.keepAlive && isClean && x.conn.Value.isDrained())
}

// end ends the exchange unless it has been, and reports whether the connection was kept.
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

// giveBack gives the connection back.
func (x *exchange) keepConn() bool {
	trace := x.trace
	if trace == nil || trace.PutIdleConn == nil {
		return x.conn.Keep()
	}
	kept := x.conn.Keep()
	if kept {
		trace.PutIdleConn(nil)
	} else {
		trace.PutIdleConn(errors.New("tare: there are enough idle connections"))
	}
	return kept
}

// claim reports whether the connection was left to whoever calls it first.
func (x *exchange) claimConn() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	leftToSender := x.leftToSender
	if x.leftToSender = false; leftToSender && x.bodyTimer != nil {
		x.bodyTimer.Stop()
	}
	return leftToSender
}

// dropLeft closes the connection if it was left to the sender, and reports whether it was.
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

// gotHead ends what is bounded. A head that comes while the connection is being closed, which takes a while over TLS, is too late:
// it returns why that is closed.
func (x *exchange) headReceived() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.headWait.Finish(x.conn, !x.ended)
	return x.cause
}

// bound bounds the time until the head has come. The caller holds mu.
func (x *exchange) startHeadTimeout(d time.Duration) {
	if !x.ended {
		x.headWait.Start(x.conn, d)
	}
}

// explain makes the error of a read one that says what has happened.
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
		return x.newError(Server, TimedOut, "waiting for the response of", errHeaderTimeout)
	case errors.Is(err, io.EOF) && !x.receivedAny:
		return x.newError(Server, Closed, "waiting for the response of", errNoResponse)
	case errors.Is(err, io.EOF):
		x.connEOF = true
		err = io.ErrUnexpectedEOF
	}
	return x.newError(Server, Closed, "reading the response of", err)
}

// fault is an error of this exchange.
func (x *exchange) newError(side Side, kind Kind, during string, err error) *Error {
	if side == Server && x.usesAbsoluteForm() {
		side = Proxy
	}
	return &Error{Side: side, Kind: kind, CanRetry: x.sentNothing || x.conn == nil || x.isRepeatable, During: during, Addr: x.key.addr(), Err: err}
}
