package fcgiclient

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/pool"
	"github.com/tarehq/tare/internal/roundtrip"
)

const (
	defaultIdleTimeout = 30 * time.Second
	defaultDialTimeout = 10 * time.Second
)

// Config holds the settings of a Client. Fields of fcgi.Transport have the same meaning here.
type Config struct {
	Network, Addr string
	DialContext   func(ctx context.Context, network, addr string) (net.Conn, error)

	// Describe sets the parameters of a request whose body has that length, or -1 if it is unknown.
	// Edit may change the parameters, and keep them.
	Describe func(p *Params, r *http.Request, length int64) error
	Edit     func(r *http.Request, p *Params)

	BufferBody int64
	Stderr     func(r *http.Request, text []byte)

	MaxConnsPerHost     int
	MaxIdleConnsPerHost int
	IdleConnTimeout     time.Duration
	// MaxConnUses and MaxConnAge limit the number of uses and the age of a connection. 0 is no
	// limit.
	MaxConnUses int
	MaxConnAge  time.Duration

	DialTimeout            time.Duration
	ResponseHeaderTimeout  time.Duration
	MaxResponseHeaderBytes int64
}

// Options replaces settings of the Client for one request.
type Options struct {
	// Addr is the address of the application: a host and port, or a unix socket if it begins with a
	// slash. "" selects the Client's.
	Addr string
	// Describe sets all parameters for a body of that length, or -1 if it is unknown. nil selects
	// the Client's.
	Describe func(p *Params, length int64) error
	// Stderr receives what the application writes to STDERR. nil selects the Client's.
	Stderr func(text []byte)
	// Repeatable allows a retry of the request if a reused connection was closed before any byte of
	// a response. It replaces net/http's rule, under which a request's Idempotency-Key counts.
	Repeatable bool
	// Sent is set to true once a part of the request has been sent, or may have been.
	Sent bool
}

// Client sends requests. It is safe for concurrent use.
type Client struct {
	Config
	pool pool.Pool[endpoint, struct{}]

	messages       sync.Pool // of *message
	receiveBuffers sync.Pool // of *receiveBuffer
	pieceBuffers   sync.Pool // of *pieceBuffer
}

// New returns a Client with the settings, which it copies.
func New(config *Config) *Client {
	c := &Client{Config: *config}
	c.pool.Limits = pool.Limits{
		MaxConns: c.MaxConnsPerHost, MaxIdlePerHost: max(c.MaxIdleConnsPerHost, 0),
		IdleTimeout: cmp.Or(c.IdleConnTimeout, defaultIdleTimeout),
		MaxUses:     c.MaxConnUses, MaxAge: c.MaxConnAge,
	}
	return c
}

// RoundTrip sends a request and waits for the head of its response, as http.RoundTripper requires.
func (cl *Client) RoundTrip(r *http.Request) (*http.Response, error) { return cl.Do(r, nil) }

// Do is RoundTrip with options for this request. o may be nil.
func (cl *Client) Do(r *http.Request, o *Options) (*http.Response, error) {
	q := &request{Request: r, client: cl, options: o, body: roundtrip.BodyOf(r)}
	defer q.release()
	if err := q.prepare(); err != nil {
		q.body.Close()
		return nil, err
	}
	resp, failed, err := q.attempt(false)
	if failed != nil && q.prepareRetry(failed) {
		resp, _, err = q.attempt(true)
	}
	return resp, err
}

// attempt sends the request once. If it fails on a reused connection without any byte of a
// response, it also returns the exchange.
func (q *request) attempt(fresh bool) (*http.Response, *exchange, error) {
	nc, err := q.client.connect(q.Context(), q.endpoint, fresh)
	if err != nil {
		q.body.Close()
		return nil, nil, err
	}
	x := newExchange(q, nc)
	began := false
	var resp *http.Response
	if err = x.send(); err == nil {
		r := newResponse(x)
		resp, err = r.httpResponse()
		began = r.receivedAny
	}
	if err != nil && nc.Reused && x.connLost && !began {
		return nil, x, err
	}
	return resp, nil, err
}

// CloseIdleConnections closes all idle connections.
func (cl *Client) CloseIdleConnections() { cl.pool.CloseIdle() }

// Count returns the numbers of connections.
func (cl *Client) Count() pool.Count { return cl.pool.Count() }
