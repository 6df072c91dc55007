package fetch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"

	"github.com/tarehq/tare/internal/client"
)

// Kind is the kind of an Error.
type Kind int

// The kinds of an Error. Those up to InvalidHeader count as failures of the server.
const (
	Failure       Kind = iota
	Timeout            // the server was silent for too long
	InvalidHeader      // the received bytes are not a response
	NoServer           // no server is available, or none can serve the request
	InvalidBody        // the client's body could not be read
	Canceled           // the client has gone away, or Upstream.Expired is done
)

// Error is why a Request has no response.
type Error struct {
	Kind   Kind
	Status int // for the client
	Err    error

	notSent bool // no server has received any of the request
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap is for package errors.
func (e *Error) Unwrap() error { return e.Err }

// Timeout and InvalidHeader let package cache tell kinds of errors apart.
func (e *Error) Timeout() bool { return e.Kind == Timeout }

// InvalidHeader reports whether the received bytes were not a response.
func (e *Error) InvalidHeader() bool { return e.Kind == InvalidHeader }

func (r *Request) classify(ctx context.Context, a *attempt, err error) *Error {
	f := &Error{Kind: Failure, Status: http.StatusBadGateway, Err: err}
	var clientErr *client.Error
	switch {
	case errors.Is(err, errTimeout):
		f.Kind = Timeout
	case ctx.Err() != nil, r.upstream.Expired.Err() != nil:
		f.Kind = Canceled
	case isLocal(err): // as in nginx no server has failed, and no other is tried
		f.Kind, f.Status = NoServer, http.StatusInternalServerError
	case errors.As(err, &clientErr):
		// a request that must not be repeated can be retried only if nothing of it was sent
		f.notSent = clientErr.CanRetry && !a.canRepeat()
		switch {
		case clientErr.Kind == client.BadBody:
			f.Kind = InvalidBody
		case clientErr.Kind == client.Malformed, clientErr.Kind == client.Rejected: // as nginx counts it
			f.Kind = InvalidHeader
		case clientErr.Timeout():
			f.Kind = Timeout
		}
	default: // the error is about the request
		f.Kind = NoServer
	}
	if f.Kind == Timeout {
		f.Status = http.StatusGatewayTimeout
	}
	return f
}

// isLocal reports whether an attempt failed before a server could: there was no descriptor, or the
// local address cannot be used. Clients may choose that address.
func isLocal(err error) bool {
	var call *os.SyscallError
	var address *net.AddrError
	return errors.As(err, &call) && (call.Syscall == "socket" || call.Syscall == "bind") || errors.As(err, &address)
}
