package http3

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	quicserver "github.com/tarehq/tare/front/internal/quic"
	"github.com/tarehq/tare/front/nginxconf"
	connectioninfo "github.com/tarehq/tare/internal/connection"
)

// connection is a connection of a client. It has an http3.Server of its own, because a server sends
// GOAWAY on all its connections.
type connection struct {
	config *quicserver.Config
	limits *nginxconf.Listener
	quic   *quic.Conn
	server *http3.Server
	opened time.Time
	count  atomic.Int64 // of requests, for the handler
	number connectioninfo.Number

	heads heads

	mu        sync.Mutex
	requests  int // in progress
	isServed  bool
	isRetired bool
	isClosed  bool
	idle      *time.Timer // runs while no request is in progress
	idleEnd   time.Time   // when it fires
}

func newConnection(q *quic.Conn, config *quicserver.Config) *connection {
	c := &connection{config: config, limits: config.ListenerAt(q.LocalAddr()), quic: q, opened: time.Now()}
	c.server = &http3.Server{
		Handler: c, MaxHeaderBytes: int(c.limits.HeaderBytes), Logger: slog.New(slog.DiscardHandler),
		ConnContext: func(ctx context.Context, _ *quic.Conn) context.Context {
			c.start()
			return connectioninfo.With(ctx, c)
		},
	}
	c.heads.init(c)
	if t, ok := q.QlogTrace().(*trace); ok {
		t.heads.Store(&c.heads)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// The time covers clients that open streams and send no requests on them.
	c.idleEnd = time.Now().Add(c.idleTimeout())
	c.idle = time.AfterFunc(c.idleTimeout(), c.endIdle)
	return c
}

// idleTimeout returns how long the connection is kept between requests. A keepalive_timeout of 0
// allows one request.
func (c *connection) idleTimeout() time.Duration {
	if c.limits.IdleTimeout == 0 {
		return lingerTime
	}
	return c.limits.IdleTimeout
}

// serve serves the connection until it is closed, and its handlers have returned.
func (c *connection) serve() {
	defer c.idle.Stop()
	_ = c.server.ServeQUICConn(c.quic) // the error is the client's
	c.close()                          // after an error of the control stream it is open
	c.heads.end()
}

// start is called when the server accepts requests and can send GOAWAY.
func (c *connection) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isServed = true
	if c.isRetired {
		c.goAway()
	}
}

// retire sends GOAWAY. The connection ends after its requests.
func (c *connection) retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isRetired {
		return
	}
	c.isRetired = true
	if c.isServed {
		c.goAway()
	}
	if c.requests == 0 {
		c.waitIdle(lingerTime)
	}
}

// goAway makes the server send GOAWAY, and reject later requests. Shutdown waits until the
// connection has ended.
func (c *connection) goAway() {
	go func() { _ = c.server.Shutdown(c.quic.Context()) }()
}

func (c *connection) close() {
	_ = c.quic.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
}

// begin counts a request. It reports false if the connection is being closed.
func (c *connection) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return false
	}
	c.requests++
	c.idle.Stop()
	return true
}

func (c *connection) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests--
	switch {
	case c.requests > 0:
	case c.isRetired:
		c.waitIdle(lingerTime)
	default:
		c.waitIdle(c.idleTimeout())
	}
}

// waitIdle starts the time without requests. The caller holds mu.
func (c *connection) waitIdle(d time.Duration) {
	c.idleEnd = time.Now().Add(d)
	c.idle.Reset(d)
}

// endIdle ends a connection after a time without requests. A request may be on its way, so GOAWAY
// comes first, and rejects it: closing the connection at once could lose it.
func (c *connection) endIdle() {
	c.mu.Lock()
	isIdle := c.requests == 0 && !time.Now().Before(c.idleEnd) // no request has begun, and perhaps ended
	c.isClosed = c.isClosed || isIdle && c.isRetired
	isClosed := c.isClosed
	c.mu.Unlock()
	if isClosed {
		c.close()
	} else if isIdle {
		c.retire()
	}
}

// ServeHTTP implements http.Handler: it serves a request.
func (c *connection) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !c.begin() {
		panic(http.ErrAbortHandler)
	}
	defer c.end()
	defer c.heads.serve(r)()
	defer c.logPanic(r)
	if c.limits.IdleTimeout == 0 {
		c.retire()
	}
	if hasLargeField(r, int(c.limits.HeaderFieldBytes)) {
		w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
		if c.config.Rejected != nil {
			c.callRejected(r, r.Method+" "+r.RequestURI+" "+r.Proto, http.StatusRequestHeaderFieldsTooLarge)
		}
		return
	}
	out := &response{ResponseWriter: w, connection: c}
	if !startBody(w, r, c.limits.HeaderTimeout) {
		panic(http.ErrAbortHandler)
	}
	c.config.Handler.ServeHTTP(out, r)
	out.finish(r)
}

// hasLargeField reports whether a name or value of a request's head exceeds the limit.
func hasLargeField(r *http.Request, limit int) bool {
	if limit <= 0 {
		return false
	}
	largest := max(len(r.Method), len(r.Host), len(r.RequestURI))
	for name, values := range r.Header {
		largest = max(largest, len(name))
		for _, v := range values {
			largest = max(largest, len(v))
		}
	}
	return largest > limit
}

// logPanic logs a panic of a handler. The stream is then reset.
func (c *connection) logPanic(r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
		c.config.ErrorLog.Printf("http: panic serving %s: %v\n%s", r.RemoteAddr, v, debug.Stack())
	}
	panic(http.ErrAbortHandler)
}

// Opened implements connection.Info.
func (c *connection) Opened() time.Time { return c.opened }

// CountRequest implements connection.Info.
func (c *connection) CountRequest() int { return int(c.count.Add(1)) }

// Number implements connection.Info.
func (c *connection) Number(counter *atomic.Int64) int64 { return c.number.Of(counter) }
