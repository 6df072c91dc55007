package tare

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/client"
)

// Transport is an http.RoundTripper, and a replacement for http.Transport. Its fields have the
// names and meanings of http.Transport's. docs/transport.md lists the differences. A Transport is
// safe for concurrent use. Its fields must not be changed after its first use, and it must not be
// copied: see Clone.
//
//	client := &http.Client{Transport: &tare.Transport{Proxy: http.ProxyFromEnvironment}}
//
// Over HTTP/1.1, the goroutine that calls RoundTrip sends the request and receives the response, so
// a connection in use needs no goroutine of its own. On Linux, one goroutine watches all idle
// sockets. Elsewhere, each idle connection has one. If a server closes an idle connection or sends
// a byte on it, the Transport closes it at once. If it was idle for less than 50 ms, that may be at
// its next use. Over HTTP/2, each connection has a goroutine. Responses and their parts are never
// reused.
//
// The zero value sends requests over HTTP/1.1 and, if TLS negotiates it, over HTTP/2. It supports
// URLs with the schemes http and https. It connects to unix sockets through Addr, UnixSockets or
// DialContext. No URL names a unix socket, and so no redirect can.
//
// # Errors
//
// RoundTrip returns a *TransportError if a request fails on its way: it reports what went wrong, on
// which side, and whether a retry is safe. If the context of a request ends, RoundTrip returns the
// context's cause, unwrapped. It returns other errors for requests that it cannot send as they are.
//
// Over HTTP/2, the Transport sends a request up to five times if the server reports that it has
// not processed it. Otherwise it retries a request on another connection, over HTTP/1.1 once, if
// the request was sent on a reused connection that turned out to be closed, or its stream was reset
// by PROTOCOL_ERROR. No byte of a response was received then. Its body must be available again (see
// http.Request.GetBody). In addition, its method must be GET, HEAD, OPTIONS or TRACE, or it has an
// Idempotency-Key, or nothing of it was sent.
type Transport struct {
	// Addr is the address of all connections except those to a proxy: a host and port, or a unix
	// socket if it begins with a slash, or with @ for an abstract one. If it is empty, the URL of
	// each request has the address.
	Addr string

	// UnixSockets maps hosts in URLs to unix sockets: with {"docker": "/run/docker.sock"}, a
	// request for http://docker/version is sent over that socket, whatever its port. Hosts are in
	// lower case, without port. Such a request uses neither a proxy nor Addr. A redirect to such a
	// host fails unless it comes from the same host. The map must not be changed after the first
	// request.
	UnixSockets map[string]string

	// Proxy returns the URL of the HTTP, HTTPS or SOCKS5 proxy for a request, or nil for no proxy.
	// See http.ProxyFromEnvironment.
	Proxy func(*http.Request) (*url.URL, error)
	// OnProxyConnectResponse is called with a proxy's response to CONNECT. If it returns an error,
	// the request fails.
	OnProxyConnectResponse func(ctx context.Context, proxyURL *url.URL, connectReq *http.Request,
		connectRes *http.Response) error
	// ProxyConnectHeader is the header of CONNECT requests.
	ProxyConnectHeader http.Header
	// GetProxyConnectHeader returns the header of a CONNECT request, instead of ProxyConnectHeader.
	GetProxyConnectHeader func(ctx context.Context, proxyURL *url.URL, target string) (http.Header, error)

	// DialContext opens connections. If it is nil, a net.Dialer does.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// DialTLSContext opens TLS connections to servers, including the handshake, if there is no
	// proxy. If it is nil, DialContext and TLSClientConfig are used.
	DialTLSContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLSClientConfig configures the handshakes with servers and proxies. It is copied.
	TLSClientConfig *tls.Config
	// TLSHandshakeTimeout limits the time of a TLS handshake. 0 is no limit.
	TLSHandshakeTimeout time.Duration

	// DisableKeepAlives makes each request use a connection of its own.
	DisableKeepAlives bool
	// DisableCompression keeps the Transport from requesting gzip on its own and decompressing the
	// response.
	DisableCompression bool

	// MaxIdleConns limits the idle connections to all hosts. 0 is no limit.
	MaxIdleConns int
	// MaxIdleConnsPerHost limits the idle connections to one host. 0 is
	// http.DefaultMaxIdleConnsPerHost, which is 2.
	MaxIdleConnsPerHost int
	// MaxConnsPerHost limits the connections to one host. At the limit, requests wait in the order
	// of their arrival. 0 is no limit.
	MaxConnsPerHost int
	// IdleConnTimeout is the time after which an idle connection is closed. 0 is no limit.
	IdleConnTimeout time.Duration

	// ResponseHeaderTimeout limits the time from the end of sending a request, including its body,
	// to the end of the response's head. 0 is no limit.
	ResponseHeaderTimeout time.Duration
	// ExpectContinueTimeout limits how long the body of a request with "Expect: 100-continue" waits
	// for a response. If it is 0, the body is sent at once.
	ExpectContinueTimeout time.Duration
	// MaxResponseHeaderBytes limits the size of a response's head. 0 is 10 MB.
	MaxResponseHeaderBytes int64

	// WriteBufferSize is ignored. One write sends a head, and a body is sent in pieces of 32 or 64 KB.
	WriteBufferSize int
	// ReadBufferSize is the number of bytes to receive at a time, unless the caller's buffer is
	// larger. 0 is 4 KB.
	ReadBufferSize int

	// ForceAttemptHTTP2 enables HTTP/2 even if DialContext, DialTLSContext or TLSClientConfig is
	// set.
	ForceAttemptHTTP2 bool
	// HTTP2 configures HTTP/2.
	HTTP2 *http.HTTP2Config
	// Protocols is the set of enabled protocols. If it is nil, HTTP/1.1 is enabled, and HTTP/2 as
	// ForceAttemptHTTP2 describes. Without TLS, HTTP/2 is used if it excludes HTTP/1.1. An empty set
	// enables HTTP/1.1 only.
	Protocols *http.Protocols

	once   sync.Once
	client *client.Client
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.run().RoundTrip(r)
}

// CloseIdleConnections closes all idle connections.
func (t *Transport) CloseIdleConnections() { t.run().CloseIdleConnections() }

// Clone returns a Transport with the same settings. It shares no connections with t.
func (t *Transport) Clone() *Transport {
	c := new(Transport)
	client.CopyFields(c, t)
	c.UnixSockets, c.ProxyConnectHeader = maps.Clone(t.UnixSockets), t.ProxyConnectHeader.Clone()
	c.TLSClientConfig = t.TLSClientConfig.Clone()
	if t.HTTP2 != nil {
		h := *t.HTTP2
		c.HTTP2 = &h
	}
	if t.Protocols != nil {
		p := *t.Protocols
		c.Protocols = &p
	}
	return c
}

func (t *Transport) run() *client.Client {
	t.once.Do(func() {
		settings := new(http.Transport)
		client.CopyFields(settings, t)
		t.client = client.New(&client.Config{Addr: t.Addr, UnixSockets: t.UnixSockets, Settings: settings})
	})
	return t.client
}

var _ interface {
	http.RoundTripper
	CloseIdleConnections()
} = (*Transport)(nil)

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
