package client

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/pool"
	"github.com/tarehq/tare/internal/roundtrip"
)

const (
	// defaultMaxHead bounds a response's head where no setting does, as in net/http.
	defaultMaxHeadBytes = 10 << 20
	// defaultReadBuffer is how much is received at a time, unless the reader has more room.
	defaultReadBuffer = 4 << 10
	// leastReadBuffer is the least that a setting can make of it.
	minReadBuffer = 512
)

// Config is the settings of a Client. They mean what those of http.Transport do.
type Config struct {
	Addr                   string            // where all requests go that no proxy gets; "" is where their URLs say
	UnixSockets            map[string]string // by the host of a URL, in lower case
	Proxy                  func(*http.Request) (*url.URL, error)
	OnProxyConnectResponse func(ctx context.Context, proxyURL *url.URL, connectReq *http.Request, connectRes *http.Response) error
	DialContext            func(ctx context.Context, network, addr string) (net.Conn, error)
	DialTLSContext         func(ctx context.Context, network, addr string) (net.Conn, error)
	TLSClientConfig        *tls.Config
	TLSHandshakeTimeout    time.Duration
	DisableKeepAlives      bool
	DisableCompression     bool
	MaxIdleConns           int
	MaxIdleConnsPerHost    int
	MaxConnsPerHost        int
	IdleConnTimeout        time.Duration
	ResponseHeaderTimeout  time.Duration
	ExpectContinueTimeout  time.Duration
	ProxyConnectHeader     http.Header
	GetProxyConnectHeader  func(ctx context.Context, proxyURL *url.URL, target string) (http.Header, error)
	MaxResponseHeaderBytes int64
	WriteBufferSize        int
	ReadBufferSize         int
	ForceAttemptHTTP2      bool
	HTTP2                  *http.HTTP2Config
	Protocols              *http.Protocols

	// The rest is for who passes requests on.

	// Verbatim adds nothing to requests and responses that only net/http would, such as User-Agent, and sends a URL's Opaque as the
	// request's target.
	Verbatim bool
	// OnInterim is called with interim responses, but for 100. An error of its own fails the request.
	OnInterim func(r *http.Request, status int, h http.Header) error
	// Repeatable reports whether a request may be sent a second time if a kept connection was closed before anything came back. nil is
	// net/http's rule, by which a request's own Idempotency-Key counts: a proxy must not take its client's word for that.
	Repeatable func(r *http.Request) bool
	// MaxConnUses and MaxConnAge bound how often and how long a connection is used; 0 is no bound.
	MaxConnUses int
	MaxConnAge  time.Duration
}

// Client sends requests. It may be used by any number of goroutines.
type Client struct {
	Config
	pool           pool.Pool[key, connInfo]
	tls            *tls.Config // for the handshakes with servers, but for their names
	maxHeadBytes   int
	readBufferSize int
	allowsHTTP1    bool // over TLS and without
	http2          http2Transports

	scratches    sync.Pool // of *scratch
	pieceBuffers sync.Pool // of *chunk
	gzipReaders  sync.Pool // of *gzip.Reader
}

// conn is a connection to an origin or a proxy, or a place for one.
type conn = pool.Conn[key, connInfo]

// New returns a Client with settings, which it keeps.
func New(config *Config) *Client {
	c := &Client{Config: *config, maxHeadBytes: defaultMaxHeadBytes, readBufferSize: defaultReadBuffer}
	if n := config.MaxResponseHeaderBytes; n > 0 {
		c.maxHeadBytes = int(min(n, maxOffset))
	}
	if n := config.ReadBufferSize; n > 0 {
		c.readBufferSize = max(n, minReadBuffer)
	}
	perHost := config.MaxIdleConnsPerHost
	if perHost == 0 {
		perHost = http.DefaultMaxIdleConnsPerHost
	}
	c.pool.Limits = pool.Limits{
		MaxConns: config.MaxConnsPerHost, MaxIdle: config.MaxIdleConns, MaxIdlePerHost: max(perHost, 0),
		IdleTimeout: config.IdleConnTimeout, MaxUses: config.MaxConnUses, MaxAge: config.MaxConnAge,
	}
	c.pool.SkipCheck = true // see connect, and talk
	c.configureProtocols()
	return c
}

// RoundTrip sends a request and waits for the head of its response, as http.RoundTripper
// demands. Errors about the request itself are plain; others are an *Error or the cause of
// the request's context.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	return c.roundTrip(&slab{}, r)
}

func (c *Client) roundTrip(x *slab, r *http.Request) (*http.Response, error) {
	x.client, x.request = c, r
	x.body = roundtrip.BodyOf(r)
	if err := x.prepare(); err != nil {
		x.body.Close()
		x.release()
		return nil, err
	}
	if x.overHTTP2 != nil {
		return x.overHTTP2.roundTrip(r)
	}
	resp, err := x.attempt(false)
	if err != nil && x.mayRetry {
		if second, ok := x.retry(); ok {
			return second.attempt(true)
		}
	}
	return resp, err
}

// attempt sends the request once.
func (x *slab) attempt(fresh bool) (*http.Response, error) {
	if err := x.connect(fresh); err != nil {
		x.release()
		if handed, ok := err.(*handOff); ok { //nolint:errorlint // ours, as it was made
			return handed.roundTrip(&x.exchange)
		}
		x.body.Close()
		return nil, err
	}
	x.begin()
	if err := x.send(); err != nil {
		return nil, x.fail(err)
	}
	if err := x.receive(); err != nil {
		return nil, x.fail(err)
	}
	return x.makeResponse()
}

// fail ends the exchange with an error, which it returns.
func (x *slab) fail(err error) error {
	x.abandon(err)
	x.mayRetry = x.conn.Reused && x.connLost && !x.receivedAny
	x.release()
	return err
}

// connect gets a connection.
func (x *slab) connect(fresh bool) (err error) {
	c, trace := x.client, x.trace
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(x.key.addr())
	}
	for x.conn == nil {
		if x.conn, err = c.pool.Get(x.ctx, x.key, fresh); err != nil {
			return causeOr(x.ctx, err)
		}
		if x.conn.Reused && !x.usesRawExchange() && !x.conn.Alive() {
			x.conn.Drop()
			x.conn = nil
		}
	}
	if x.conn.Conn == nil {
		if err = c.openConn(x); err != nil {
			x.conn.Drop()
			return err
		}
	}
	if trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: x.conn.Conn, Reused: x.conn.Reused, WasIdle: x.conn.Reused, IdleTime: x.conn.IdleFor()})
	}
	return nil
}

// repeatable reports whether a request may be sent a second time.
func (c *Client) isRepeatable(r *http.Request) bool {
	if c.Repeatable != nil {
		return c.Repeatable(r)
	}
	return roundtrip.Repeatable(r)
}

// CloseIdleConnections closes the connections that are kept and not in use.
func (c *Client) CloseIdleConnections() {
	c.pool.CloseIdle()
	c.http2.closeIdle()
}

// Count counts connections, but for those that speak HTTP/2.
func (c *Client) Count() pool.Count { return c.pool.Count() }

// inflater is a gzip.Reader, perhaps one that was used.
func (c *Client) gzipReader() *gzip.Reader {
	if z, ok := c.gzipReaders.Get().(*gzip.Reader); ok {
		return z
	}
	return new(gzip.Reader)
}
