package fcgiclient

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/roundtrip"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

const (
	// abortTime bounds telling the application that a request is given up.
	abortTimeout = 10 * time.Millisecond
	// endTime bounds sending the last of a body after the response has ended.
	sendEndTimeout = time.Second
	// answerTime bounds how long a head may take from an application that takes no more.
	lateResponseTimeout = time.Second
)

// call is one attempt to have a request answered: a connection, and what is sent on it.
// The connection is closed, or given back, by whoever is first: the end of the response, the
// end of the context, a caller who has had enough.
type exchange struct {
	*request
	body        *roundtrip.Body // of this attempt
	conn        *conn
	sentNothing bool // nothing was sent at all
	connLost    bool // the connection was found to be closed or broken

	mu           sync.Mutex
	ended        bool                   // the connection was closed, given back, or left to the sender
	leftToSender bool                   // the last of these: the sender gives it back
	cause        error                  // why it was closed before the response's end
	progress     progress               // of sending
	sendErr      error                  // why sending has ended early, if there is no cause
	headWait     roundtrip.HeadWait     // for the response
	contextWatch roundtrip.ContextWatch // of the context
}

// errGivenUp is why a connection is closed whose response nobody wants.
var errBodyClosed = errors.New("fcgi: read on a closed response body")

func newExchange(q *request, nc *conn) *exchange {
	x := &exchange{request: q, body: q.body, conn: nc}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.contextWatch = roundtrip.WatchContext(q.Context(), x)
	return x
}

// ContextEnded implements roundtrip.Ender.
func (x *exchange) ContextEnded() { x.abandon(roundtrip.Cause(x.Context())) }

// abandon ends the call before the response does. Who reads or writes then gets the cause.
func (x *exchange) abandon(cause error) { x.end(cause, false) }

// finish ends the call when the response has ended. clean is whether nothing was received
// behind it.
func (x *exchange) finish(isClean bool) { x.end(nil, x.keepAlive && isClean) }

func (x *exchange) end(cause error, isReusable bool) {
	x.mu.Lock()
	if x.ended {
		x.mu.Unlock()
		return
	}
	x.ended, x.cause = true, cause
	progress := x.progress
	isReusable = isReusable && x.sendErr == nil
	if x.leftToSender = isReusable && progress == bodyEnding; x.leftToSender {
		_ = x.conn.SetWriteDeadline(time.Now().Add(sendEndTimeout))
	}
	x.contextWatch.Stop(x.Context(), x)
	x.mu.Unlock()
	switch {
	case isReusable && progress == bodyEnding:
	case isReusable && progress == bodySent:
		x.conn.Keep()
	default:
		if cause != nil && progress == bodySent {
			x.abort()
		}
		x.drop()
	}
}

// abort tells the application, if it costs nothing, that it may stop. The connection's end
// says as much to one that listens.
func (x *exchange) abort() {
	if x.conn.SetWriteDeadline(time.Now().Add(abortTimeout)) == nil {
		_, _ = x.conn.Write(wire.AppendAbort(nil, requestID))
	}
}

// drop closes the connection.
func (x *exchange) drop() {
	x.conn.Drop()
	x.body.CloseLater()
}

// gotHead ends what is bounded. A head that comes while the connection is being closed is too late: it returns why that is.
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
	isLate := errors.Is(err, os.ErrDeadlineExceeded)
	x.connLost = x.cause == nil && (x.sendErr != nil || !isLate)
	switch {
	case x.cause != nil:
		return x.cause
	case x.sendErr != nil && !x.headWait.Received:
		return fmt.Errorf("fcgi: sending the request: %w", x.sendErr)
	case x.headWait.HasDeadline && isLate:
		return &timeoutError{x.client.ResponseHeaderTimeout}
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return fmt.Errorf("fcgi: reading the response: %w", err)
}

// timeoutError says that there was no head in time.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return "fcgi: no response within " + e.after.String() + " of the request (ResponseHeaderTimeout)"
}

// Timeout implements net.Error.
func (e *timeoutError) Timeout() bool { return true }

// Temporary implements net.Error.
func (e *timeoutError) Temporary() bool { return false }

func (e *timeoutError) Unwrap() error { return os.ErrDeadlineExceeded }
