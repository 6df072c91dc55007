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

// Transport is an http.RoundTripper in place of http.Transport. Its fields have the names and
// meanings of that one's; what differs is in docs/transport.md. It may be used by any number of
// goroutines, its fields must not be changed after its first use, and it must not be copied:
// see Clone.
//
//	client := &http.Client{Transport: &tare.Transport{Proxy: http.ProxyFromEnvironment}}
//
// A request is sent, and its response received, by the goroutine that calls RoundTrip. Idle
// connections have no goroutine either, and one that its server closes is noticed at once. What a
// caller is given is never used again.
//
// The zero value sends requests over HTTP/1.1 and, where TLS negotiates it, over HTTP/2. It accepts URLs of the schemes
// http and https. Unix sockets are reached through Addr, UnixSockets or DialContext. No URL names one, so no redirect can.
//
// # Errors
//
// Errors are *TransportError, which tells what went wrong, on which side, and whether sending the
// request again is safe. When the context of a request ends, that fails with the context's cause
// itself. Requests that could not be sent as they are fail with other errors.
//
// A request is sent a second time, on a new connection, if a kept connection turns out to have
// been closed before any byte of a response has come, if its body can be had again, and if its
// method is GET, HEAD, OPTIONS or TRACE, or it has an Idempotency-Key, or nothing of it was sent.
type Transport struct {
	// Addr is where all connections go that are not to a proxy: a host and port, or a unix
	// socket if it begins with a slash, or with @ for an abstract one. "" is what a request's
	// URL says.
	Addr string

	// UnixSockets maps hosts of URLs to unix sockets: with {"docker": "/run/docker.sock"} the URL http://docker/version is
	// requested over that socket, whatever its port. Hosts are in lower case and without port. No proxy is used, and
	// Addr is not. A redirect to such a host fails unless it comes from the same host. The map must not be changed after the
	// first request.
	UnixSockets map[string]string

	// Proxy returns the proxy for a request, by HTTP, HTTPS or SOCKS5; nil is none. See
	// http.ProxyFromEnvironment.
	Proxy func(*http.Request) (*url.URL, error)
	// OnProxyConnectResponse is called with a proxy's answer to CONNECT. An error of its own
	// fails the request.
	OnProxyConnectResponse func(ctx context.Context, proxyURL *url.URL, connectReq *http.Request, connectRes *http.Response) error
	// ProxyConnectHeader is sent with CONNECT.
	ProxyConnectHeader http.Header
	// GetProxyConnectHeader returns what is sent with CONNECT, instead of ProxyConnectHeader.
	GetProxyConnectHeader func(ctx context.Context, proxyURL *url.URL, target string) (http.Header, error)

	// DialContext opens connections. nil is a net.Dialer's.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// DialTLSContext opens connections for https without a proxy, handshake included. nil is
	// DialContext and TLSClientConfig.
	DialTLSContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLSClientConfig is for handshakes with servers and proxies. It is copied.
	TLSClientConfig *tls.Config
	// TLSHandshakeTimeout bounds a handshake. 0 is no bound.
	TLSHandshakeTimeout time.Duration

	// DisableKeepAlives has each request use a connection of its own.
	DisableKeepAlives bool
	// DisableCompression keeps the Transport from asking for gzip on its own, and from
	// decompressing what comes then.
	DisableCompression bool

	// MaxIdleConns bounds the idle connections to all hosts. 0 is no bound.
	MaxIdleConns int
	// MaxIdleConnsPerHost bounds those to one host. 0 is http.DefaultMaxIdleConnsPerHost, 2.
	MaxIdleConnsPerHost int
	// MaxConnsPerHost bounds the connections to a host. Requests wait their turn, first come
	// first served. 0 is no bound.
	MaxConnsPerHost int
	// IdleConnTimeout is how long an idle connection is kept. 0 is no bound.
	IdleConnTimeout time.Duration

	// ResponseHeaderTimeout bounds the time between the end of sending a request, its body
	// included, and the end of the response's head. 0 is no bound.
	ResponseHeaderTimeout time.Duration
	// ExpectContinueTimeout is how long the body of a request with "Expect: 100-continue" waits
	// for an answer. With 0 it does not.
	ExpectContinueTimeout time.Duration
	// MaxResponseHeaderBytes bounds a response's head. 0 is 10 MB.
	MaxResponseHeaderBytes int64

	// WriteBufferSize is for HTTP/2 and for nothing else: a head is sent in one write, and a
	// body in pieces of 32 KB.
	WriteBufferSize int
	// ReadBufferSize is how much is received at a time, unless a reader has more room. 0 is
	// 4 KB.
	ReadBufferSize int

	// ForceAttemptHTTP2 has HTTP/2 negotiated also with a DialContext, DialTLSContext or
	// TLSClientConfig.
	ForceAttemptHTTP2 bool
	// HTTP2 is settings of HTTP/2.
	HTTP2 *http.HTTP2Config
	// Protocols says what is spoken. nil is HTTP/1.1, and HTTP/2 as ForceAttemptHTTP2 says.
	// Without HTTP/1.1 it is an http.Transport that serves all requests.
	Protocols *http.Protocols

	once   sync.Once
	client *client.Client
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.run().RoundTrip(r)
}

// CloseIdleConnections closes the connections that are kept and not in use.
func (t *Transport) CloseIdleConnections() { t.run().CloseIdleConnections() }

// Clone returns a Transport with the same settings, and connections of its own.
func (t *Transport) Clone() *Transport {
	c := t.settings()
	clone := &Transport{
		Addr: c.Addr, UnixSockets: maps.Clone(c.UnixSockets), Proxy: c.Proxy, OnProxyConnectResponse: c.OnProxyConnectResponse,
		ProxyConnectHeader: c.ProxyConnectHeader.Clone(), GetProxyConnectHeader: c.GetProxyConnectHeader,
		DialContext: c.DialContext, DialTLSContext: c.DialTLSContext,
		TLSClientConfig: c.TLSClientConfig.Clone(), TLSHandshakeTimeout: c.TLSHandshakeTimeout,
		DisableKeepAlives: c.DisableKeepAlives, DisableCompression: c.DisableCompression,
		MaxIdleConns: c.MaxIdleConns, MaxIdleConnsPerHost: c.MaxIdleConnsPerHost, MaxConnsPerHost: c.MaxConnsPerHost, IdleConnTimeout: c.IdleConnTimeout,
		ResponseHeaderTimeout: c.ResponseHeaderTimeout, ExpectContinueTimeout: c.ExpectContinueTimeout, MaxResponseHeaderBytes: c.MaxResponseHeaderBytes,
		WriteBufferSize: c.WriteBufferSize, ReadBufferSize: c.ReadBufferSize, ForceAttemptHTTP2: c.ForceAttemptHTTP2,
	}
	if c.HTTP2 != nil {
		h := *c.HTTP2
		clone.HTTP2 = &h
	}
	if c.Protocols != nil {
		p := *c.Protocols
		clone.Protocols = &p
	}
	return clone
}

func (t *Transport) run() *client.Client {
	t.once.Do(func() { t.client = client.New(t.settings()) })
	return t.client
}

func (t *Transport) settings() *client.Config {
	return &client.Config{
		Addr: t.Addr, UnixSockets: t.UnixSockets, Proxy: t.Proxy, OnProxyConnectResponse: t.OnProxyConnectResponse,
		ProxyConnectHeader: t.ProxyConnectHeader, GetProxyConnectHeader: t.GetProxyConnectHeader,
		DialContext: t.DialContext, DialTLSContext: t.DialTLSContext,
		TLSClientConfig: t.TLSClientConfig, TLSHandshakeTimeout: t.TLSHandshakeTimeout,
		DisableKeepAlives: t.DisableKeepAlives, DisableCompression: t.DisableCompression,
		MaxIdleConns: t.MaxIdleConns, MaxIdleConnsPerHost: t.MaxIdleConnsPerHost, MaxConnsPerHost: t.MaxConnsPerHost, IdleConnTimeout: t.IdleConnTimeout,
		ResponseHeaderTimeout: t.ResponseHeaderTimeout, ExpectContinueTimeout: t.ExpectContinueTimeout, MaxResponseHeaderBytes: t.MaxResponseHeaderBytes,
		WriteBufferSize: t.WriteBufferSize, ReadBufferSize: t.ReadBufferSize,
		ForceAttemptHTTP2: t.ForceAttemptHTTP2, HTTP2: t.HTTP2, Protocols: t.Protocols,
	}
}

var _ interface {
	http.RoundTripper
	CloseIdleConnections()
} = (*Transport)(nil)
