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
	// abortTimeout limits sending ABORT_REQUEST.
	abortTimeout = 10 * time.Millisecond
	// sendEndTimeout limits sending the end of a body after the response has ended.
	sendEndTimeout = time.Second
	// lateResponseTimeout limits the wait for a head after sending the request has failed.
	lateResponseTimeout = time.Second
)

// exchange is one attempt to send a request and receive its response. The package comment describes
// its states.
type exchange struct {
	*request
	body        *roundtrip.Body // of this attempt
	conn        *conn
	sentNothing bool // no byte of the request was sent
	connLost    bool // the connection was closed or broken

	mu           sync.Mutex
	ended        bool                   // the connection was closed, kept, or left to the sender
	leftToSender bool                   // the sender will keep or close the connection
	cause        error                  // of an end before the response's end
	progress     progress               // of sending
	sendErr      error                  // why sending has failed, if there is no cause
	headWait     roundtrip.HeadWait     // for the response
	contextWatch roundtrip.ContextWatch // of the context
}

// errBodyClosed is the cause if the caller closes the body before its end.
var errBodyClosed = errors.New("fcgi: read on closed response body")

func newExchange(q *request, nc *conn) *exchange {
	x := &exchange{request: q, body: q.body, conn: nc}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.contextWatch = roundtrip.WatchContext(q.Context(), x)
	return x
}

// ContextEnded implements roundtrip.Ender.
func (x *exchange) ContextEnded() { x.abandon(roundtrip.Cause(x.Context())) }

// abandon ends the exchange before the response ends. A pending Read or Write fails with cause.
func (x *exchange) abandon(cause error) { x.end(cause, false) }

// finish ends the exchange at the end of the response. isClean reports whether no bytes have been
// received behind the response.
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

// abort sends ABORT_REQUEST if it can be sent at once. An application that reads also sees that the
// connection ends.
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

// headReceived ends the timeout for the head. If the exchange was abandoned in the meantime, the
// head is too late, and headReceived returns the cause.
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

// timeoutError is the error if ResponseHeaderTimeout passes.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return "fcgi: no response within " + e.after.String() + " (ResponseHeaderTimeout)"
}

// Timeout implements net.Error.
func (e *timeoutError) Timeout() bool { return true }

// Temporary implements net.Error.
func (e *timeoutError) Temporary() bool { return false }

func (e *timeoutError) Unwrap() error { return os.ErrDeadlineExceeded }
