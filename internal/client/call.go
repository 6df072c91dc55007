package client

import (
	"context"
	"net"
	"net/http"
)

// Call holds what a proxy sets for one request, beside the Config of its Client. It must not change
// before the exchange has ended.
type Call struct {
	Context context.Context // used in place of the request's
	// Addr is the address of the server: a host and port, or a unix socket if it begins with a
	// slash. "" takes it from the Config or the URL.
	Addr string
	// IsRepeatable reports whether the request may be sent a second time, if a reused connection was
	// closed before any byte of a response. A proxy must not rely on what its client claims.
	IsRepeatable bool
	Hooks        Hooks   // nil without any
	Memory       *Memory // holds the response; nil allocates it

	// The fields below are for FastCGI.
	//
	// Params are all parameters of the request. nil selects the Client's Describe.
	Params *Params
	// StreamBody sends a body of known length while it is read, however short it is. Otherwise a
	// short one is read first.
	StreamBody bool
}

// Hooks are called during an exchange. They must not block, except for Dial.
type Hooks interface {
	// Dial opens a connection to the server, with TLS if the URL demands it.
	Dial(ctx context.Context) (net.Conn, error)
	// Interim receives each interim response except 100.
	Interim(status int, h http.Header)
	// Ended is called once for each use of a connection, when the exchange has ended or has switched
	// protocols. It receives the numbers of bytes that were sent and received, with heads and
	// framing, before encryption.
	Ended(sent, received int64)
	// Stderr receives what a FastCGI application writes to STDERR.
	Stderr(text []byte)
}

// hooks returns the hooks of a Call, or nil.
func (c *Call) hooks() Hooks {
	if c == nil {
		return nil
	}
	return c.Hooks
}
