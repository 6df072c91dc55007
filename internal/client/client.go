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
	// defaultMaxHeadBytes limits a response's head if no setting does, as in net/http.
	defaultMaxHeadBytes = 10 << 20
	// defaultReadBuffer is the number of bytes to receive at a time, unless the reader's buffer is
	// larger.
	defaultReadBuffer = 4 << 10
	// minReadBuffer is the minimum that ReadBufferSize can set.
	minReadBuffer = 512
)

// Config holds the settings of a Client. Fields of http.Transport have the same meaning here.
type Config struct {
	// of all connections except those to a proxy; "" takes it from the URL
	Addr                   string
	UnixSockets            map[string]string // by the host of a URL, in lower case
	Proxy                  func(*http.Request) (*url.URL, error)
	OnProxyConnectResponse func(ctx context.Context, proxyURL *url.URL, connectReq *http.Request,
		connectRes *http.Response) error
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

	// The fields below are for proxies.
	//
	// Verbatim keeps the Client from adding what only net/http adds to requests and responses, such
	// as User-Agent. With it, the Opaque of a URL is the request target.
	Verbatim bool
	// OnInterim is called for each interim response except 100. If it returns an error, the request
	// fails.
	OnInterim func(r *http.Request, status int, h http.Header) error
	// Repeatable reports whether a request may be sent a second time, if a reused connection was
	// closed before any byte of a response. If it is nil, net/http's rule applies, under which a
	// request's Idempotency-Key counts. A proxy must not rely on what its client claims.
	Repeatable func(r *http.Request) bool
	// MaxConnUses and MaxConnAge limit the number of uses and the age of a connection. 0 is no
	// limit.
	MaxConnUses int
	MaxConnAge  time.Duration
}

// Client sends requests. It is safe for concurrent use.
type Client struct {
	Config
	pool           pool.Pool[key, connInfo]
	tls            *tls.Config // for handshakes with servers, without ServerName
	maxHeadBytes   int
	readBufferSize int
	allowsHTTP1    bool // over TLS and without
	http2          http2Transports

	scratches    sync.Pool // of *scratch
	pieceBuffers sync.Pool // of *pieceBuffer
	gzipReaders  sync.Pool // of *gzip.Reader
}

// conn is a connection to a server or a proxy, or a slot for one.
type conn = pool.Conn[key, connInfo]

// New returns a Client with the settings, which it copies.
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
	c.pool.SkipCheck = true // connect and rawExchange check
	c.configureProtocols()
	return c
}

// RoundTrip sends a request and waits for the head of its response, as http.RoundTripper requires.
// Its error is an *Error, or the cause of the request's context, or another error if the request
// itself is invalid.
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

// attempt sends the request once. With fresh, it uses a new connection.
func (x *slab) attempt(fresh bool) (*http.Response, error) {
	if err := x.connect(fresh); err != nil {
		x.release()
		if handed, ok := err.(*http2Handover); ok { //nolint:errorlint // openConn does not wrap it
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

// fail ends the exchange with an error, and returns that error.
func (x *slab) fail(err error) error {
	x.abandon(err)
	x.mayRetry = x.conn.Reused && x.connLost && !x.receivedAny
	x.release()
	return err
}

// connect gets a connection from the pool, or opens one.
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
		trace.GotConn(httptrace.GotConnInfo{Conn: x.conn.Conn, Reused: x.conn.Reused, WasIdle: x.conn.Reused,
			IdleTime: x.conn.IdleFor()})
	}
	return nil
}

// isRepeatable reports whether a request may be sent a second time.
func (c *Client) isRepeatable(r *http.Request) bool {
	if c.Repeatable != nil {
		return c.Repeatable(r)
	}
	return roundtrip.Repeatable(r)
}

// CloseIdleConnections closes all idle connections.
func (c *Client) CloseIdleConnections() {
	c.pool.CloseIdle()
	c.http2.closeIdle()
}

// Count returns the numbers of connections, without those that speak HTTP/2.
func (c *Client) Count() pool.Count { return c.pool.Count() }

// gzipReader returns a gzip.Reader, which may have been used before.
func (c *Client) gzipReader() *gzip.Reader {
	if z, ok := c.gzipReaders.Get().(*gzip.Reader); ok {
		return z
	}
	return new(gzip.Reader)
}
