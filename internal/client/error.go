package client

import (
	"context"
	"errors"
	"os"

	"github.com/tarehq/tare/internal/roundtrip"
)

// Side is whose fault an Error is, as far as can be told.
type Side uint8

// The sides.
const (
	Local  Side = iota + 1 // a limit that was set here, or the request's body
	Proxy                  // the proxy, or the way to it
	Server                 // the server, or the way to it
)

func (s Side) String() string {
	switch s {
	case Local:
		return "local"
	case Proxy:
		return "proxy"
	case Server:
		return "server"
	}
	return "unknown"
}

// Kind is what went wrong.
type Kind uint8

// The kinds.
const (
	CannotConnect Kind = iota + 1 // no connection could be made, TLS and proxy included
	CannotSend                    // the request could not be sent
	Closed                        // the connection ended before the response did
	Malformed                     // the response is not HTTP, or over a limit
	TimedOut                      // a limit of time has passed
	BadBody                       // the request's body failed, or has another length than it was said to have
)

func (k Kind) String() string {
	switch k {
	case CannotConnect:
		return "cannot connect"
	case CannotSend:
		return "cannot send"
	case Closed:
		return "connection closed"
	case Malformed:
		return "malformed response"
	case TimedOut:
		return "timed out"
	case BadBody:
		return "bad request body"
	}
	return "unknown"
}

// Error is why a request got no response, or only a part of one.
type Error struct {
	Side Side
	Kind Kind
	// CanRetry is whether the request can be sent again without the danger that it is
	// done twice, because nothing of it was sent or because that makes no difference
	// for requests of its kind. What could be repeated here has been.
	CanRetry bool
	During   string // what was tried, such as "reading the response"
	Addr     string // host and port
	Err      error  // what went wrong there
}

func (e *Error) Error() string {
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

var (
	errHeaderTimeout     = errors.New("no response in time (ResponseHeaderTimeout)")
	errNotHTTP           = errors.New("what the server sends is not HTTP/1")
	errTooManyInterim    = errors.New("too many interim responses")
	errUnrequestedSwitch = errors.New("the server switches protocols, which it was not asked to")
	errEarlySwitch       = errors.New("the server switches protocols before it has got the whole request")
	errIdleConnClosed    = errors.New("the server has closed the connection, or said something unasked")
	errNoResponse        = errors.New("the server closed the connection without a response")
	errHookFailed        = errors.New("a hook refused an interim response")
)

// causeOr is why a context has ended, or err if it has not.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return roundtrip.Cause(ctx)
	}
	return err
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
