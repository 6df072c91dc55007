package fcgi

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/client"
)

// Transport is an http.RoundTripper for FastCGI applications such as php-fpm. Use it as the
// transport of an http.Client or an httputil.ReverseProxy. It is safe for concurrent use. Its
// fields must not be changed after its first use, and it must not be copied.
//
// The zero value sends a request over TCP to the host and port of its URL, on a connection of its
// own. It supports URLs with the schemes http, https and fcgi. For the last one, call
// RegisterProtocol of an http.Client's http.Transport.
//
// # Parameters
//
// An application receives the parameters of nginx's fastcgi_params: those of CGI/1.1 (RFC 3875),
// and REQUEST_URI, DOCUMENT_URI, REQUEST_SCHEME, HTTPS and REDIRECT_STATUS. They describe the
// request that is passed to RoundTrip: REQUEST_URI comes from its URL, not from its RequestURI.
// Some parameters come from a server's request, which httputil.ReverseProxy copies: REMOTE_ADDR,
// REMOTE_PORT, SERVER_ADDR, and HTTPS by its TLS field. They are omitted if they are unknown.
//
// Header fields become HTTP_ parameters. No two fields become the same parameter, and none becomes
// a parameter that applications use as a setting. So field names are dropped if they contain
// anything but letters, digits and hyphens, as nginx drops those with an underscore. Proxy (see
// https://httpoxy.org) and fields that concern the connection are dropped, too.
//
// A path with a control byte is rejected and, if Root is set, one with a ".." segment.
//
// # Bodies
//
// A request's body of known length, up to 16 KB, is read before a connection is used. So a slow
// client does not occupy the application. A longer body is sent while it is read, and the response
// may begin before it ends. In FastCGI, only the end of STDIN marks the end of a body of unknown
// length, and PHP reads no body without CONTENT_LENGTH: see BufferBody. A connection that has sent
// such a body is not kept.
//
// A response's body ends at the end of the request (END_REQUEST). Bytes beyond Content-Length are
// cut off. If the body is shorter than that, or the connection is closed before its end, the error
// of Read wraps io.ErrUnexpectedEOF. If the body is read to its end, the connection is kept, as far
// as the limits allow. If it is closed before, the connection is closed.
//
// # Errors
//
// RoundTrip returns a *tare.TransportError if a request fails on its way. If an application ends a
// request without a response, that error wraps ErrOverloaded, ErrCannotMultiplex, ErrUnknownRole or
// an *ExitError: use errors.Is and errors.As. If the context of a request ends, RoundTrip returns
// the context's cause, unwrapped. It returns other errors for requests that it cannot send as they
// are.
//
// The Transport retries a request once, on a new connection, under the same conditions as
// http.Transport: the request was sent on a reused connection, which turned out to be closed before
// any byte of a response. Its body must be available again. In addition, its method must be GET,
// HEAD, OPTIONS or TRACE, or it has an Idempotency-Key, or nothing of it was sent.
type Transport struct {
	// Network and Addr are the address on which the application listens, as for net.Dial. If
	// Network is empty, it is "unix" if Addr begins with a slash, and otherwise "tcp". If Addr is
	// empty, the address is the host and port of the request's URL, over TCP.
	Network, Addr string
	// DialContext opens connections. If it is nil, a net.Dialer does.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)

	// Root is the document root in the application's file system, such as "/var/www/html". If it is
	// set, SCRIPT_FILENAME and DOCUMENT_ROOT are sent.
	//
	// If only Root is set, the URL's path is the script: SCRIPT_NAME. If neither Root nor Script is
	// set, the application is the whole site: SCRIPT_NAME is empty, and PATH_INFO is the path.
	Root string
	// Script is the SCRIPT_NAME of all requests, such as "/index.php": a front controller, or the
	// path of an application. If the URL's path begins with it, PATH_INFO is the rest of the path.
	// Otherwise PATH_INFO is empty.
	Script string
	// SplitPath is the suffix of script names, such as ".php". PATH_INFO is what follows the first
	// segment of the path with that suffix. It applies if Root is set and Script is not.
	SplitPath string
	// Index is appended to a script's name that ends in a slash. "" is "index.php". It applies if
	// Root is set and Script is not.
	Index string
	// Params may change the parameters of a request before they are sent. They are not validated
	// again.
	Params func(r *http.Request, p *Params)
	// BufferBody applies to bodies of unknown length. A body of up to BufferBody bytes is read to
	// its end before it is sent, and so has a CONTENT_LENGTH, which PHP requires. A longer one
	// fails with an error that wraps an *http.MaxBytesError. If BufferBody is 0, bodies are sent
	// while they are read, without CONTENT_LENGTH.
	BufferBody int64

	// Stderr is called with what the application writes to STDERR for a request, as it arrives, by
	// the goroutine that waits for the response. text is valid during the call only, and may end
	// anywhere in a line. It is not trustworthy. If Stderr is nil, it is dropped.
	Stderr func(r *http.Request, text []byte)

	// MaxConnsPerHost limits the connections to one address, in use and idle. At the limit,
	// requests wait in the order of their arrival. 0 is no limit.
	MaxConnsPerHost int
	// MaxIdleConnsPerHost limits the idle connections to one address. 0 keeps no idle connections,
	// where http.Transport keeps two: a process of php-fpm serves one connection until that is
	// closed. With php-fpm, set MaxConnsPerHost to at most pm.max_children. Otherwise requests may
	// wait for processes that idle connections occupy.
	MaxIdleConnsPerHost int
	// IdleConnTimeout is the time after which an idle connection is closed. 0 is 30 seconds.
	IdleConnTimeout time.Duration
	// DialTimeout limits the time of opening a connection. 0 is 10 seconds.
	DialTimeout time.Duration
	// ResponseHeaderTimeout limits the time from the end of sending a request, including its body,
	// to the end of the response's head. 0 is no limit.
	ResponseHeaderTimeout time.Duration
	// MaxResponseHeaderBytes limits the size of a response's head. 0 is http.DefaultMaxHeaderBytes,
	// 1 MB.
	MaxResponseHeaderBytes int64

	once   sync.Once
	client *client.Client
}

// Params holds the parameters of a request to an application: names and values, each name once.
type Params = client.Params

// Errors of an application that rejects a request (FastCGI 1.0, section 5.5).
var (
	// ErrOverloaded is returned if the application is out of a resource.
	ErrOverloaded = client.ErrOverloaded
	// ErrCannotMultiplex is returned if the application rejects the request as a second one on its
	// connection. The Transport never sends a second one, so this is a fault of the application.
	ErrCannotMultiplex = client.ErrCannotMultiplex
	// ErrUnknownRole is returned if the application is not a Responder.
	ErrUnknownRole = client.ErrUnknownRole
)

// ExitError is returned if an application ends a request without a response. After a response, the
// application's status is ignored, because HTTP has no equivalent.
type ExitError = client.ExitError

const defaultIndex = "index.php"

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) { return t.run().RoundTrip(r) }

// CloseIdleConnections closes all idle connections.
func (t *Transport) CloseIdleConnections() { t.run().CloseIdleConnections() }

func (t *Transport) run() *client.Client {
	t.once.Do(func() {
		t.client = client.NewFastCGI(&client.Config{
			Addr: t.Addr, DialTimeout: t.DialTimeout, Settings: &http.Transport{
				DialContext: t.DialContext, MaxConnsPerHost: t.MaxConnsPerHost,
				MaxIdleConnsPerHost: t.MaxIdleConnsPerHost, IdleConnTimeout: t.IdleConnTimeout,
				ResponseHeaderTimeout: t.ResponseHeaderTimeout, MaxResponseHeaderBytes: t.MaxResponseHeaderBytes,
			},
		}, &client.FastCGI{
			Network: t.Network, Describe: t.describe, Edit: t.Params, BufferBody: t.BufferBody, Stderr: t.Stderr,
		})
	})
	return t.client
}

var _ interface {
	http.RoundTripper
	CloseIdleConnections()
} = (*Transport)(nil)
