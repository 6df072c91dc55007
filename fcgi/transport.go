package fcgi

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/fcgiclient"
)

// Transport is an http.RoundTripper to FastCGI applications such as php-fpm. It can be what
// an httputil.ReverseProxy or an http.Client sends requests with, and may be used by any
// number of goroutines. Its fields must not be changed after its first use, and it must not
// be copied.
//
// The zero value sends a request to the host and port of its URL, by TCP, and on a connection
// of its own. URLs of the schemes http, https and fcgi are taken;
// http.Transport.RegisterProtocol makes the last known to an http.Client.
//
// # Parameters
//
// An application gets the parameters that nginx's fastcgi_params gives: those of CGI/1.1 (RFC
// 3875), and REQUEST_URI, DOCUMENT_URI, REQUEST_SCHEME, HTTPS and REDIRECT_STATUS. They tell of
// the request that RoundTrip is given: REQUEST_URI is its URL's, not its RequestURI. What only
// the request of a server knows (REMOTE_ADDR, REMOTE_PORT, SERVER_ADDR, and HTTPS by its TLS) is
// taken from there, which httputil.ReverseProxy copies, and is left out where it is not known.
//
// Fields of the header become HTTP_ parameters. Two fields cannot become the same one, nor an
// application be told what it takes for a setting: names that have anything but letters, digits
// and hyphens are dropped, as nginx drops those with an underscore, and so are Proxy (see
// https://httpoxy.org) and the fields that concern a connection.
//
// A path with a control byte is refused and, with Root, one with a ".." segment.
//
// # Bodies
//
// A request's body of up to 16 KB whose length is known is read before a connection is taken,
// so that a slow client does not occupy the application. A longer one is sent while it is read,
// and the response may begin before it ends. FastCGI has no framing for a body whose length is
// not known but STDIN's end, and PHP reads nothing without CONTENT_LENGTH: see BufferBody. The
// connection that such a body is sent on is not kept.
//
// A response's body ends where the application says that the request has ended. What exceeds
// Content-Length is cut off. A body that is shorter, or a connection that is closed before, is
// io.ErrUnexpectedEOF. Reading the body to its end keeps the connection, if connections are
// kept; closing it sooner closes the connection.
//
// # Errors
//
// ErrOverloaded, ErrCannotMultiplex, ErrUnknownRole and ExitError are the answers of an
// application that has none. A request fails with its context's cause once that has ended. It
// is sent a second time, on a new connection, if a kept connection turns out to have been closed
// before any byte of a response has come, and if it can be repeated as http.Transport
// understands that: its body can be had again, and its method is GET, HEAD, OPTIONS or TRACE, or
// it has an Idempotency-Key, or nothing of it was sent.
type Transport struct {
	// Network and Addr say where the application listens, as in net.Dial. Without Network
	// that is "unix" if Addr begins with a slash, else "tcp". Without Addr it is the host
	// and port of the request's URL, by TCP.
	Network, Addr string
	// DialContext opens connections. nil is a net.Dialer's.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)

	// Root is the document root as the application sees it, such as "/var/www/html". With it
	// SCRIPT_FILENAME and DOCUMENT_ROOT are sent.
	//
	// With Root alone the URL's path is the script: SCRIPT_NAME. Without Root and Script
	// the application is the whole site: SCRIPT_NAME is empty, PATH_INFO the path.
	Root string
	// Script is the SCRIPT_NAME of all requests, such as "/index.php": a front controller, or
	// the path that an application is mounted at. PATH_INFO is what follows in a path that
	// begins with it, else empty.
	Script string
	// SplitPath is how the names of scripts end, such as ".php": what follows the first
	// segment of the path that ends so is PATH_INFO. It is for Root without Script.
	SplitPath string
	// Index is appended to a script's name that ends in a slash; "" is "index.php". It is
	// for Root without Script.
	Index string
	// Params may change the parameters of a request before they are sent. What it sets is
	// not looked at again.
	Params func(r *http.Request, p *Params)
	// BufferBody is for bodies whose length is not known: one of up to so many bytes is
	// read to its end before it is sent, and then has a CONTENT_LENGTH, as PHP needs; a
	// longer one fails with *http.MaxBytesError. 0 sends all without CONTENT_LENGTH, as they come.
	BufferBody int64

	// Stderr is called with what the application writes to STDERR for a request, as it
	// comes, by the goroutine that waits for the response. text is valid during the call,
	// may end anywhere in a line, and is not to be trusted. nil drops it.
	Stderr func(r *http.Request, text []byte)

	// MaxConnsPerHost limits the connections to one address, in use and idle. At the limit, requests
	// wait in the order of their arrival. 0 is no limit.
	MaxConnsPerHost int
	// MaxIdleConnsPerHost limits the idle connections to one address. 0 keeps no idle connections,
	// where http.Transport keeps two: a process of php-fpm serves one connection until that is
	// closed. With php-fpm, set MaxConnsPerHost to at most pm.max_children. Otherwise requests may
	// wait for processes that idle connections occupy.
	MaxIdleConnsPerHost int
	// IdleConnTimeout is how long an idle connection is kept. 0 is 30 seconds.
	IdleConnTimeout time.Duration
	// DialTimeout bounds opening a connection. 0 is 10 seconds.
	DialTimeout time.Duration
	// ResponseHeaderTimeout bounds the time between the end of sending a request, its
	// body included, and the end of the response's head. 0 is no bound.
	ResponseHeaderTimeout time.Duration
	// MaxResponseHeaderBytes bounds a response's head. 0 is http.DefaultMaxHeaderBytes, 1 MB.
	MaxResponseHeaderBytes int64

	once   sync.Once
	client *fcgiclient.Client
}

// Params are the parameters of a request to an application: names and values, each name once.
type Params = fcgiclient.Params

// Errors of an application that refuses a request (FastCGI 1.0, section 5.5).
var (
	// ErrOverloaded is returned when the application is out of some resource.
	ErrOverloaded = fcgiclient.ErrOverloaded
	// ErrCannotMultiplex is returned when the application takes the request for a second one
	// on its connection, which it is not.
	ErrCannotMultiplex = fcgiclient.ErrCannotMultiplex
	// ErrUnknownRole is returned when the application is not a Responder.
	ErrUnknownRole = fcgiclient.ErrUnknownRole
)

// ExitError is returned when an application ends a request without a response. After a response
// its status means nothing that HTTP could tell.
type ExitError = fcgiclient.ExitError

const defaultIndex = "index.php"

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) { return t.run().RoundTrip(r) }

// CloseIdleConnections closes the connections that are kept and not in use.
func (t *Transport) CloseIdleConnections() { t.run().CloseIdleConnections() }

func (t *Transport) run() *fcgiclient.Client {
	t.once.Do(func() {
		t.client = fcgiclient.New(&fcgiclient.Config{
			Network: t.Network, Addr: t.Addr, DialContext: t.DialContext,
			Describe: t.describe, Edit: t.Params, BufferBody: t.BufferBody, Stderr: t.Stderr,
			MaxConnsPerHost: t.MaxConnsPerHost, MaxIdleConnsPerHost: t.MaxIdleConnsPerHost, IdleConnTimeout: t.IdleConnTimeout,
			DialTimeout: t.DialTimeout, ResponseHeaderTimeout: t.ResponseHeaderTimeout, MaxResponseHeaderBytes: t.MaxResponseHeaderBytes,
		})
	})
	return t.client
}

var _ interface {
	http.RoundTripper
	CloseIdleConnections()
} = (*Transport)(nil)
