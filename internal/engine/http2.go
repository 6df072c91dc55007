package engine

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/connection"
)

// preface is how a client begins HTTP/2 (RFC 9113, 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// http2 serves the connections that speak HTTP/2. It hands them to net/http: to an
// http.Server with the same settings, whose listener yields nothing else.
type http2 struct {
	server *Server

	mu    sync.Mutex
	inner *http.Server  // nil until it is needed
	conns *handListener // what inner serves
	err   error         // why it cannot serve
	start *sync.Once    // of inner
	fit   bool          // net/http offers HTTP/2; set by configure
	open  atomic.Int64  // connections that were handed over
}

// configure makes the inner server unless it exists. It fails if the settings
// forbid HTTP/2, or with http.ErrServerClosed.
func (h *http2) configure() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inner != nil {
		return h.err
	}
	if h.server.closing.Load() {
		return http.ErrServerClosed
	}
	h.conns = newHandListener()
	h.start = new(sync.Once)
	h.inner = h.server.likeSettings(h.conns)
	h.inner.SetKeepAlivesEnabled(!h.server.noReuse.Load())
	// Serving a listener that has ended makes net/http say whether it can.
	ended := newHandListener()
	_ = ended.Close()
	if err := h.inner.Serve(ended); !errors.Is(err, net.ErrClosed) {
		h.err = err
	}
	h.fit = h.inner.TLSNextProto[protoHTTP2] != nil
	return h.err
}

// works reports whether net/http offers HTTP/2: it can be built without, and
// GODEBUG can turn it off. It is known once configure was called, even if the
// inner server has ended since.
func (h *http2) works() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fit
}

func (h *http2) get() *http.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.inner
}

// likeSettings is an http.Server with every setting of ours, those of later
// versions of Go included, but for what has been seen to when it gets a connection.
func (s *Server) likeSettings(conns *handListener) *http.Server {
	inner := new(http.Server)
	from, to := reflect.ValueOf(s.settings).Elem(), reflect.ValueOf(inner).Elem()
	for i := range from.NumField() {
		if from.Type().Field(i).IsExported() {
			to.Field(i).Set(from.Field(i))
		}
	}
	inner.Handler = inServer{server: s, Handler: handlerOf(s.settings)}
	inner.DisableGeneralOptionsHandler = true // ours has it
	inner.TLSNextProto = nil
	inner.TLSConfig = inner.TLSConfig.Clone()
	if inner.TLSConfig == nil {
		inner.TLSConfig = new(tls.Config)
	}
	inner.TLSConfig.NextProtos = []string{protoHTTP2}
	inner.BaseContext = nil
	inner.ConnContext = func(context.Context, net.Conn) context.Context { return conns.ctx }
	inner.ConnState = func(nc net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			return // the hook has been told
		case http.StateClosed, http.StateHijacked:
			if s.http2.open.Add(-1) == 0 {
				defer s.endIfUnused()
			}
		}
		if hook := s.settings.ConnState; hook != nil {
			if p, ok := nc.(*prereadConn); ok {
				nc = p.Conn
			}
			hook(nc, state)
		}
	}
	return inner
}

// serve hands a connection over. It reports false if the server is closing or
// cannot serve it.
func (h *http2) serve(nc net.Conn, ctx context.Context) bool {
	if err := h.configure(); err != nil {
		if !errors.Is(err, http.ErrServerClosed) {
			h.server.logf("http: connection from %v closed: %v", nc.RemoteAddr(), err)
		}
		return false
	}
	h.mu.Lock()
	inner, conns, start := h.inner, h.conns, h.start
	h.mu.Unlock()
	start.Do(func() { go inner.Serve(conns) }) //nolint:errcheck // ends when it is shut down
	select {
	case conns.handed <- handed{nc, ctx}:
		return true
	case <-conns.closed:
		return false
	}
}

// rest ends the inner server, which has no connection. The next one makes another.
func (h *http2) rest() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inner != nil {
		_ = h.conns.Close()
		h.inner = nil
	}
}

// shutdown begins http.Server.Shutdown and returns what will yield its result.
func (h *http2) shutdown(ctx context.Context) <-chan error {
	result := make(chan error, 1)
	inner := h.get()
	if inner == nil {
		result <- nil
		return result
	}
	go func() { result <- inner.Shutdown(ctx) }()
	return result
}

func (h *http2) close() error {
	if inner := h.get(); inner != nil {
		return inner.Close()
	}
	return nil
}

func (h *http2) setKeepAlives(v bool) {
	if inner := h.get(); inner != nil {
		inner.SetKeepAlivesEnabled(v)
	}
}

// handToHTTP2 gives the connection away. The hook of a connection's states is told
// by those who get it.
func (c *netConn) handToHTTP2() {
	if !c.claim() {
		return
	}
	nc := c.nc
	if c.next < c.end {
		nc = &prereadConn{nc, bytes.Clone(c.in[c.next:c.end])}
	}
	c.setReadDeadline(time.Time{})
	if !c.http2.serve(nc, connection.With(c.ctx, &http2Conn{opened: c.opened})) {
		return
	}
	c.taken = true
	c.release()
	c.http2.adopt(c)
}

// adopt takes a connection that was handed over off the server's list: the inner server has it.
func (h *http2) adopt(c *netConn) {
	h.server.mu.Lock()
	h.server.conns.remove(c)
	hasEnded := h.open.Add(1) == 0 // at once, so that it is always counted once
	h.server.mu.Unlock()
	h.server.noteClosed()
	if hasEnded { // before it was counted
		h.server.endIfUnused()
	}
}

// prefaced reports whether the client begins with HTTP/2's preface. It waits for as
// much as it takes to tell, at most as long as for a head, and consumes nothing.
func (c *netConn) prefaced() bool {
	c.setReadDeadline(c.opened.Add(c.headTime))
	for {
		n := min(len(preface), c.end-c.next)
		if string(c.in[c.next:c.next+n]) != preface[:n] {
			return false
		}
		if n == len(preface) {
			return true
		}
		if c.fill() != nil {
			return false
		}
	}
}

// http2Conn is a connection that was handed over, for its handlers.
type http2Conn struct {
	opened   time.Time
	requests atomic.Int64
}

// Opened implements connection.Info.
func (c *http2Conn) Opened() time.Time { return c.opened }

// CountRequest implements connection.Info.
func (c *http2Conn) CountRequest() int { return int(c.requests.Add(1)) }

// inServer makes the server's settings the server that the context of a request names.
type inServer struct {
	server *Server
	http.Handler
}

func (h inServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if settings := h.server.settings; r.Context().Value(http.ServerContextKey) != settings {
		r = r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, settings))
	}
	if h.server.retired.Load() {
		w.Header()["Connection"] = []string{"close"} // net/http sends GOAWAY, and takes no more streams
	}
	defer func() { // net/http would look into the request that it made itself
		if r.MultipartForm != nil {
			_ = r.MultipartForm.RemoveAll()
		}
	}()
	h.Handler.ServeHTTP(w, r)
}

// handListener is a listener whose connections are handed to it.
type handListener struct {
	handed chan handed
	closed chan struct{}
	once   sync.Once
	ctx    context.Context // of the last one accepted; for whoever accepts
}

type handed struct {
	nc  net.Conn
	ctx context.Context
}

func newHandListener() *handListener {
	return &handListener{handed: make(chan handed), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *handListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.handed:
		l.ctx = c.ctx
		return c.nc, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *handListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener. Nobody asks.
func (l *handListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// prereadConn is a connection of which something has been read, which is read again.
type prereadConn struct {
	net.Conn
	rest []byte
}

func (c *prereadConn) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
