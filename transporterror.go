package tare

import "github.com/tarehq/tare/internal/client"

// TransportError is the error of a request that got no response, or only a part of one. Use
// errors.As to get one from the *url.Error of an http.Client. Its fields are:
//
//	Side     TransportErrorSide // where the error happened
//	Kind     TransportErrorKind // what went wrong
//	CanRetry bool               // sending the request again cannot carry it out twice
//	During   string             // the step that failed, such as "connecting to"
//	Addr     string             // host and port, or the path of a unix socket
//	Err      error              // the cause, for errors.Is and errors.As
//
// CanRetry is true if nothing of the request was sent, or an HTTP/2 server has not processed it. It
// is also true if the method is GET, HEAD, OPTIONS or TRACE, or if there is an Idempotency-Key. The
// Transport has already retried what it retries itself.
//
// Timeout reports whether the error is a timeout, as net.Error requires.
//
// If an HTTP/2 server resets the stream, Error returns net/http's text, and errors.As finds an
// http2.StreamError of golang.org/x/net.
type TransportError = client.Error

// TransportErrorSide is the side of the connection on which a TransportError happened. Its String
// method returns "local", "proxy" or "server".
type TransportErrorSide = client.Side

// The sides of a TransportError.
const (
	// LocalSide means this process: the request's body, or an error of a hook.
	LocalSide TransportErrorSide = client.Local
	// ProxySide means the proxy, or the connection to it.
	ProxySide TransportErrorSide = client.Proxy
	// ServerSide means the server, or the connection to it.
	ServerSide TransportErrorSide = client.Server
)

// TransportErrorKind is what went wrong in a TransportError. Its String method returns the kind in
// words, such as "connection closed".
type TransportErrorKind = client.Kind

// The kinds of a TransportError.
const (
	// CannotConnect means that the connection, the proxy's tunnel or the TLS handshake failed.
	CannotConnect TransportErrorKind = client.CannotConnect
	// CannotSend means that writing the request failed.
	CannotSend TransportErrorKind = client.CannotSend
	// ConnectionClosed means that the connection ended before the response did.
	ConnectionClosed TransportErrorKind = client.Closed
	// MalformedResponse means that the response is not valid, or exceeds a limit.
	MalformedResponse TransportErrorKind = client.Malformed
	// TimedOut means that a timeout of the Transport or of the network has passed.
	TimedOut TransportErrorKind = client.TimedOut
	// BadRequestBody means that reading the request's body failed, or that the body is longer or
	// shorter than its ContentLength.
	BadRequestBody TransportErrorKind = client.BadBody
	// RequestRejected means that a FastCGI application ended the request without a response, or an
	// HTTP/2 server reset its stream.
	RequestRejected TransportErrorKind = client.Rejected
)
