package client

import (
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"reflect"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/client/h2"
	"github.com/tarehq/tare/internal/connection"
)

const (
	// defaultReadBuffer is the number of bytes to receive at a time, unless the reader's buffer is
	// larger.
	defaultReadBuffer = 4 << 10
	// minReadBuffer is the minimum that ReadBufferSize can set.
	minReadBuffer = 512
)

// Config holds the settings of a Client. Those that a protocol does not have are ignored.
type Config struct {
	// Settings holds those that http.Transport has, too, with the same meaning. It is copied and
	// sends nothing itself. nil stands for the zero value.
	Settings *http.Transport

	// Addr is the address of all connections except those to a proxy. "" takes it from the URL.
	Addr string
	// UnixSockets has the paths of sockets by the host of a URL, in lower case.
	UnixSockets map[string]string
	// DialTimeout limits the time of opening a connection, without TLS. 0 is no limit.
	DialTimeout time.Duration

	// The fields below are for proxies.
	//
	// Verbatim keeps the Client from adding what only net/http adds to requests and responses, such
	// as User-Agent, and from calling an httptrace.ClientTrace. With it, the Opaque of a URL is the
	// request target.
	Verbatim bool
	// MaxConnUses and MaxConnAge limit the number of uses and the age of a connection. 0 is no
	// limit.
	MaxConnUses int
	MaxConnAge  time.Duration
}

// Client sends requests. It is safe for concurrent use.
type Client struct {
	config         Config
	settings       *http.Transport // data only: it sends nothing
	protocol       protocol
	pool           pool
	tls            *tls.Config // for handshakes with servers, without ServerName
	maxHeadBytes   int
	readBufferSize int
	http2          *h2.Config     // nil for FastCGI
	protocols      http.Protocols // HTTP/2 without TLS is used only without HTTP/1.1

	scratches   sync.Pool // of *scratch
	inputs      connection.Buffers
	pieces      connection.Buffers // of pieceBuffer bytes
	http2Pieces connection.Buffers // of http2PieceSize bytes
	gzipReaders sync.Pool          // of *gzip.Reader
}

// newClient returns a Client with the settings, which it copies. maxHeadBytes and readBuffer apply
// if no setting does.
func newClient(config *Config, p protocol, maxHeadBytes, readBuffer int) *Client {
	s := new(http.Transport)
	if config.Settings != nil {
		CopyFields(s, config.Settings)
	}
	c := &Client{config: *config, settings: s, protocol: p, maxHeadBytes: maxHeadBytes, readBufferSize: readBuffer}
	if n := s.MaxResponseHeaderBytes; n > 0 {
		c.maxHeadBytes = int(min(n, maxOffset))
	}
	if n := s.ReadBufferSize; n > 0 {
		c.readBufferSize = max(n, minReadBuffer)
	}
	c.pool.limits = limits{
		maxConns: s.MaxConnsPerHost, maxIdle: s.MaxIdleConns, maxIdlePerHost: max(s.MaxIdleConnsPerHost, 0),
		idleTimeout: s.IdleConnTimeout, maxUses: config.MaxConnUses, maxAge: config.MaxConnAge,
	}
	return c
}

// CopyFields copies the exported fields that two structs have in common. Others may contain locks.
func CopyFields[To, From any](to *To, from *From) {
	a, b := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for i := range a.NumField() {
		f := a.Type().Field(i)
		if v := b.FieldByName(f.Name); f.IsExported() && v.IsValid() {
			a.Field(i).Set(v)
		}
	}
}

// RoundTrip sends a request and waits for the head of its response, as http.RoundTripper requires.
// Its error is an *Error, or the cause of the request's context, or another error if the request
// itself is invalid.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	return c.Do(r, nil)
}

// Do is RoundTrip for a Call, or nil.
func (c *Client) Do(r *http.Request, call *Call) (*http.Response, error) {
	x := c.newSlab(r, call)
	if err := x.prepare(); err != nil {
		x.body.Close()
		x.release()
		return nil, err
	}
	for {
		resp, err := x.attempt()
		if err == nil {
			return resp, nil
		}
		second := x.retry()
		x.release()
		if second == nil {
			x.body.closeLater()
			return nil, err
		}
		x = second
		x.scratch.call = call
	}
}

// attempt sends the request once.
func (x *slab) attempt() (*http.Response, error) {
	if err := x.connect(); err != nil {
		x.body.Close()
		return nil, err
	}
	if x.conn.h2 != nil {
		return x.attemptHTTP2()
	}
	if !x.isEncoded {
		if err := x.scratch.codec.encode(&x.exchange); err != nil {
			x.conn.drop()
			x.body.Close()
			return nil, err
		}
		x.isEncoded = true
	} else if h, ok := x.scratch.codec.(*http1Codec); ok && x.tracesFields() {
		out := x.scratch.out // which prepare has written, before there was a connection
		x.scratch.out = nil
		_ = h.writeHead(&x.exchange)
		x.scratch.out = out
	}
	if !x.streamsBody() {
		x.progress = bodyEnding
	}
	x.mu.Lock()
	x.contextWatch = watchContext(x.ctx, &x.exchange)
	x.mu.Unlock()
	err := x.send()
	if err == nil {
		err = x.receive()
	}
	if err != nil {
		x.abandon(err)
		return nil, err
	}
	return &x.response, nil
}

// receive receives the head of the response, and makes the response.
func (x *slab) receive() error {
	c := x.scratch.codec
	if err := c.receiveHead(&x.exchange); err != nil {
		return err
	}
	if err := x.headReceived(); err != nil {
		return err
	}
	return c.makeResponse(x)
}

// connect gets a connection from the pool, or opens one.
func (x *slab) connect() (err error) {
	c, trace := x.client, x.trace
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(x.key.firstAddr())
	}
	if x.conn, err = c.pool.get(x.ctx, x.key, x.attempts > 0); err != nil {
		return x.connectError(err)
	}
	if x.conn.h2 == nil {
		// rawExchange checks by itself
		for x.conn.Conn != nil && !x.usesRawExchange() && x.conn.hasInput() {
			x.conn = c.pool.replace(x.conn)
		}
		if x.openedConn = x.conn.Conn == nil; x.openedConn {
			if err = c.openConn(x); err != nil {
				return err
			}
		}
	}
	if x.conn.h2 == nil {
		t := &x.conn.traffic
		t.hooks = x.scratch.call.hooks()
		t.sent.Store(0)
		t.received.Store(0)
	}
	if trace != nil && trace.GotConn != nil {
		info := httptrace.GotConnInfo{Conn: x.conn.Conn, Reused: !x.openedConn}
		if info.WasIdle = info.Reused && (x.conn.h2 == nil || x.conn.h2.IsUnused()); info.WasIdle {
			info.IdleTime = time.Since(x.conn.idleSince)
		}
		trace.GotConn(info)
	}
	return nil
}

// maxAttempts limits the attempts of a request. A server that closes connections after a few
// requests may leave several attempts in a row without a response.
const maxAttempts = 5

// retry returns a new exchange for the same request, if the request may be sent again. The new one
// owns the encoded request. The first one cannot be used again, because its context may still
// notify it.
func (x *slab) retry() *slab {
	needsBody := x.body != nil && !x.bodyUntouched && (x.streamsBody() || x.scratch == nil)
	if !x.mayRetry || x.ctx.Err() != nil || !x.isUnprocessed && !x.isRepeatable ||
		needsBody && x.getBody == nil || x.attempts+1 >= maxAttempts || !x.pause() {
		return nil
	}
	body := x.body
	if needsBody {
		again, err := x.getBody()
		if err != nil {
			return nil
		}
		body = &requestBody{body: again}
	}
	x.isOver = false // a Memory does not know the second exchange
	second := &slab{exchange: exchange{outgoing: x.outgoing}}
	second.body = body
	second.attempts++
	if x.scratch == nil { // HTTP/2 needs it no longer
		second.scratch, second.isEncoded, second.bodyBuffered = x.client.newScratch(), false, false
		return second
	}
	second.scratch, x.scratch = x.scratch, nil
	second.scratch.parsed, second.scratch.filled, second.scratch.memory = 0, 0, nil
	return second
}

// pause waits before the next attempt. It reports false if the context ends.
func (x *slab) pause() bool {
	d := [...]time.Duration{0, 10, 40, 160}[x.attempts] * time.Millisecond
	if d == 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-x.ctx.Done():
		return false
	}
}

// isRepeatable reports whether a request may be sent twice, by net/http's rule.
func isRepeatable(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return r.Header["Idempotency-Key"] != nil || r.Header["X-Idempotency-Key"] != nil
}

// CloseIdleConnections closes all idle connections.
func (c *Client) CloseIdleConnections() {
	c.pool.closeIdle()
}

// Count returns the numbers of connections.
func (c *Client) Count() Count { return c.pool.count() }
