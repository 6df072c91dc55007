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

// Config is the settings of a Client. Those that fcgi.Transport has, too, mean the same.
type Config struct {
	Network, Addr string
	DialContext   func(ctx context.Context, network, addr string) (net.Conn, error)

	// Describe sets the parameters of a request whose body has that length, or -1 if it is not known. Edit may
	// change them, and keep them.
	Describe func(p *Params, r *http.Request, length int64) error
	Edit     func(r *http.Request, p *Params)

	BufferBody int64
	Stderr     func(r *http.Request, text []byte)

	MaxConnsPerHost     int
	MaxIdleConnsPerHost int
	IdleConnTimeout     time.Duration
	// MaxConnUses and MaxConnAge bound how often and how long a connection is used; 0 is no bound.
	MaxConnUses int
	MaxConnAge  time.Duration

	DialTimeout            time.Duration
	ResponseHeaderTimeout  time.Duration
	MaxResponseHeaderBytes int64
}

// Options are what one request is sent with, in place of its Client's settings.
type Options struct {
	// Addr is where it goes: a host and port, or a unix socket if it begins with a slash. "" is where others go.
	Addr string
	// Describe sets all parameters, for a body of that length, or -1 if it is not known; nil is the Client's.
	Describe func(p *Params, length int64) error
	// Stderr is given what the application writes to STDERR, as Config's is; nil is the Client's.
	Stderr func(text []byte)
	// Repeatable allows sending the request a second time if a kept connection was closed before anything came back. It takes the
	// place of net/http's rule, by which a request's own Idempotency-Key counts.
	Repeatable bool
	// Sent is set to true once anything of the request was, or may have been.
	Sent bool
}

// Client sends requests. It may be used by any number of goroutines.
type Client struct {
	Config
	pool pool.Pool[endpoint, struct{}]

	messages       sync.Pool // of *message
	receiveBuffers sync.Pool // of *input
	pieceBuffers   sync.Pool // of *chunk
}

// New returns a Client with settings, which it keeps.
func New(config *Config) *Client {
	c := &Client{Config: *config}
	c.pool.Limits = pool.Limits{
		MaxConns: c.MaxConnsPerHost, MaxIdlePerHost: max(c.MaxIdleConnsPerHost, 0), IdleTimeout: cmp.Or(c.IdleConnTimeout, defaultIdleTimeout),
		MaxUses: c.MaxConnUses, MaxAge: c.MaxConnAge,
	}
	return c
}

// RoundTrip sends a request and waits for the head of its response, as http.RoundTripper demands.
func (cl *Client) RoundTrip(r *http.Request) (*http.Response, error) { return cl.Do(r, nil) }

// Do is RoundTrip with settings for this request, which may be nil.
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

// attempt sends the request once. Of a failure it returns the call if that was made on a kept
// connection and got no answer at all.
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

// CloseIdleConnections closes the connections that are kept and not in use.
func (cl *Client) CloseIdleConnections() { cl.pool.CloseIdle() }

// Count counts connections.
func (cl *Client) Count() pool.Count { return cl.pool.Count() }
