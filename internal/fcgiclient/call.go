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
	abortTime = 10 * time.Millisecond
	// endTime bounds sending the last of a body after the response has ended.
	endTime = time.Second
	// answerTime bounds how long a head may take from an application that takes no more.
	answerTime = time.Second
)

// call is one attempt to have a request answered: a connection, and what is sent on it.
// The connection is closed, or given back, by whoever is first: the end of the response, the
// end of the context, a caller who has had enough.
type call struct {
	*request
	body   *roundtrip.Body // of this attempt
	nc     *conn
	unsent bool // nothing was sent at all
	stale  bool // the connection was found to be closed or broken

	mu       sync.Mutex
	over     bool               // the connection was closed, given back, or left to the sender
	left     bool               // the last of these: the sender gives it back
	cause    error              // why it was closed before the response's end
	progress progress           // of sending
	failed   error              // why sending has ended early, if there is no cause
	head     roundtrip.HeadWait // for the response
	watch    roundtrip.Watch    // of the context
}

// errGivenUp is why a connection is closed whose response nobody wants.
var errGivenUp = errors.New("fcgi: read on a closed response body")

func newCall(q *request, nc *conn) *call {
	c := &call{request: q, body: q.body, nc: nc}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch = roundtrip.WatchContext(q.Context(), c)
	return c
}

// ContextEnded implements roundtrip.Ender.
func (c *call) ContextEnded() { c.abandon(roundtrip.Cause(c.Context())) }

// abandon ends the call before the response does. Who reads or writes then gets the cause.
func (c *call) abandon(cause error) { c.end(cause, false) }

// finish ends the call when the response has ended. clean is whether nothing was received
// behind it.
func (c *call) finish(clean bool) { c.end(nil, c.keep && clean) }

func (c *call) end(cause error, reusable bool) {
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return
	}
	c.over, c.cause = true, cause
	progress := c.progress
	reusable = reusable && c.failed == nil
	if c.left = reusable && progress == sendingEnd; c.left {
		_ = c.nc.SetWriteDeadline(time.Now().Add(endTime))
	}
	c.watch.Stop(c.Context(), c)
	c.mu.Unlock()
	switch {
	case reusable && progress == sendingEnd:
	case reusable && progress == sent:
		c.nc.Keep()
	default:
		if cause != nil && progress == sent {
			c.abort()
		}
		c.drop()
	}
}

// abort tells the application, if it costs nothing, that it may stop. The connection's end
// says as much to one that listens.
func (c *call) abort() {
	if c.nc.SetWriteDeadline(time.Now().Add(abortTime)) == nil {
		_, _ = c.nc.Write(wire.AppendAbort(nil, requestID))
	}
}

// drop closes the connection.
func (c *call) drop() {
	c.nc.Drop()
	c.body.CloseLater()
}

// gotHead ends what is bounded. A head that comes while the connection is being closed is too late: it returns why that is.
func (c *call) gotHead() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head.Got(c.nc, !c.over)
	return c.cause
}

// bound bounds the time until the head has come. The caller holds mu.
func (c *call) bound(d time.Duration) {
	if !c.over {
		c.head.Bound(c.nc, d)
	}
}

// explain makes the error of a read one that says what has happened.
func (c *call) explain(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := errors.Is(err, os.ErrDeadlineExceeded)
	c.stale = c.cause == nil && (c.failed != nil || !late)
	switch {
	case c.cause != nil:
		return c.cause
	case c.failed != nil && !c.head.Answered:
		return fmt.Errorf("fcgi: sending the request: %w", c.failed)
	case c.head.Bounded && late:
		return &timeoutError{c.client.ResponseHeaderTimeout}
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
