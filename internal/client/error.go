package client

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/tarehq/tare/internal/client/h2"
)

// Side is the side of the connection on which an error happened.
type Side uint8

// The sides.
const (
	Local  Side = iota + 1 // the request's body, or an error of a hook
	Proxy                  // the proxy, or the connection to it
	Server                 // the server, or the connection to it
)

func (s Side) String() string { return nameOf(s, "local", "proxy", "server") }

// Kind is what went wrong.
type Kind uint8

// The kinds.
const (
	CannotConnect Kind = iota + 1 // the connection, the proxy's tunnel or the TLS handshake failed
	CannotSend                    // writing the request failed
	Closed                        // the connection ended before the response did
	Malformed                     // the response is not valid, or exceeds a limit
	TimedOut                      // a timeout has passed
	// reading the request's body failed, or its length differs from ContentLength
	BadBody
	Rejected // the server ended the request without a response, or reset its stream
)

func (k Kind) String() string {
	return nameOf(k, "cannot connect", "cannot send", "connection closed", "malformed response", "timed out",
		"bad request body", "request rejected")
}

// nameOf returns the name of a constant. They begin with 1, in the order of the names.
func nameOf[T ~uint8](v T, names ...string) string {
	if v == 0 || int(v) > len(names) {
		return "unknown"
	}
	return names[v-1]
}

// Error is the error of a request that got no response, or only a part of one. See
// tare.TransportError.
type Error struct {
	Side Side
	Kind Kind
	// CanRetry reports whether the caller may send the request again: nothing of it was sent, or it
	// is repeatable. The Client has already made its own retries.
	CanRetry bool
	During   string // the step that failed, such as "reading the response from"
	Addr     string // host and port, or the path of a unix socket
	Err      error  // the cause
}

func (e *Error) Error() string {
	if reset := (h2.ResetError{}); errors.As(e.Err, &reset) {
		return reset.Error() // programs parse net/http's text
	}
	return "tare: " + e.During + " " + e.Addr + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Timeout implements net.Error.
func (e *Error) Timeout() bool {
	var t interface{ Timeout() bool }
	return e.Kind == TimedOut || errors.As(e.Err, &t) && t.Timeout()
}

// Temporary implements net.Error.
func (e *Error) Temporary() bool { return e.Timeout() }

// The steps of an exchange that more than one function reports in Error.During.
const (
	whileConnecting  = "connecting to"
	whileWaiting     = "waiting for the response from"
	whileReadingHead = "reading the response from"
	whileReadingBody = "reading the response's body from"
	whileGettingBody = "reading the request's body for"

	headTimeout = " (ResponseHeaderTimeout)" // the setting, in an error
)

// whileReading returns the step of reading that the exchange has reached.
func (x *exchange) whileReading() string {
	if x.headIsOver {
		return whileReadingBody
	}
	return whileReadingHead
}

var (
	errNotHTTP           = errors.New("the response is not HTTP/1")
	errTooManyInterim    = errors.New("too many interim responses")
	errTooManyIdle       = errors.New("tare: too many idle connections")
	errUnrequestedSwitch = errors.New("101 response without an Upgrade request")
	errEarlySwitch       = errors.New("101 response before the whole request was sent")
	errIdleConnClosed    = errors.New("the idle connection was closed, or received unexpected bytes")
	errHookFailed        = errors.New("a hook rejected an interim response")
	errTrailerNames      = errors.New("invalid or too many names in the Trailer field")
)

// textError is an error with a text of its own.
type textError struct {
	text string
	err  error // that it wraps
}

func (e textError) Error() string { return e.text }

func (e textError) Unwrap() error { return e.err }

// noResponseWithin returns the error if a time passes. It is a context.DeadlineExceeded, as
// net/http's.
func noResponseWithin(d time.Duration, setting string) error {
	return textError{"no response within " + d.String() + setting,
		errors.Join(context.DeadlineExceeded, os.ErrDeadlineExceeded)}
}

// noResponse returns the error if a connection ends before the first byte of a response. Many
// programs search for the text of io.EOF at its end.
func noResponse() error {
	return textError{"the server closed the connection without a response: EOF", io.EOF}
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
