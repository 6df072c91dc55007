package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/tarehq/tare/internal/engine/netconn"
)

// http2 is the HTTP/2 of net/http. If Server.NetHTTP2 is set, it hands the connections that speak
// HTTP/2 to an inner http.Server with the same settings, whose listener yields only these.
// Otherwise it only checks the settings.
type http2 struct {
	server *Server

	mu          sync.Mutex
	inner       *http.Server     // nil until needed
	conns       *handOffListener // the listener of inner
	err         error            // why inner cannot serve
	startOnce   *sync.Once       // starts inner
	isSupported bool             // net/http offers HTTP/2; set by configure
	openConns   atomic.Int64     // connections of inner
}

// configure makes the inner server unless it exists. It fails if the settings forbid HTTP/2, or
// with http.ErrServerClosed.
func (h *http2) configure() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inner != nil {
		return h.err
	}
	if h.server.state.Closing.Load() {
		return http.ErrServerClosed
	}
	h.conns = newHandOffListener()
	h.startOnce = new(sync.Once)
	h.inner = h.server.copySettings(h.conns)
	h.inner.SetKeepAlivesEnabled(!h.server.state.KeepAlivesDisabled.Load())
	// Serve on a closed listener returns net/http's error if it cannot serve HTTP/2.
	ended := newHandOffListener()
	_ = ended.Close()
	if err := h.inner.Serve(ended); !errors.Is(err, net.ErrClosed) {
		h.err = err
	}
	h.isSupported = h.inner.TLSNextProto[netconn.ProtoHTTP2] != nil
	return h.err
}

// supported reports whether net/http offers HTTP/2: a build tag and GODEBUG can disable it. The
// result is known once configure was called, even if the inner server has ended since.
func (h *http2) supported() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.isSupported
}

func (h *http2) innerServer() *http.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.inner
}

// copySettings returns an http.Server with every exported setting, also those of later versions of
// Go, except what is done before it receives a connection.
func (s *Server) copySettings(conns *handOffListener) *http.Server {
	inner := new(http.Server)
	from, to := reflect.ValueOf(s.settings).Elem(), reflect.ValueOf(inner).Elem()
	for i := range from.NumField() {
		if from.Type().Field(i).IsExported() {
			to.Field(i).Set(from.Field(i))
		}
	}
	inner.Handler = contextHandler{server: s, handler: settingsHandler{s.settings}}
	inner.DisableGeneralOptionsHandler = true // the outer handler does it
	inner.TLSNextProto = nil
	inner.TLSConfig = inner.TLSConfig.Clone()
	if inner.TLSConfig == nil {
		inner.TLSConfig = new(tls.Config)
	}
	inner.TLSConfig.NextProtos = []string{netconn.ProtoHTTP2}
	inner.BaseContext = nil
	inner.ConnContext = func(context.Context, net.Conn) context.Context { return conns.ctx }
	inner.ConnState = func(nc net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			return // the hook has already been called
		case http.StateClosed, http.StateHijacked:
			if s.http2.openConns.Add(-1) == 0 {
				defer s.stopIfUnused()
			}
		}
		if hook := s.settings.ConnState; hook != nil {
			if p, ok := nc.(*netconn.PrereadConn); ok {
				nc = p.Conn
			}
			hook(nc, state)
		}
	}
	return inner
}

// serve hands nc to the inner server. It reports false if the server is closing or cannot serve it.
func (h *http2) serve(nc net.Conn, ctx context.Context) bool {
	if err := h.configure(); err != nil {
		if !errors.Is(err, http.ErrServerClosed) {
			h.server.logf("http: connection from %v closed: %v", nc.RemoteAddr(), err)
		}
		return false
	}
	h.mu.Lock()
	inner, conns, start := h.inner, h.conns, h.startOnce
	h.mu.Unlock()
	start.Do(func() { go inner.Serve(conns) }) //nolint:errcheck // ends when it is shut down
	select {
	case conns.handOffs <- handOffConn{nc, ctx}:
		return true
	case <-conns.closed:
		return false
	}
}

// stopInner stops the inner server, which has no connection. The next connection starts another.
func (h *http2) stopInner() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inner != nil {
		_ = h.conns.Close()
		h.inner = nil
	}
}

// shutdown starts http.Server.Shutdown and returns a channel that receives its result.
func (h *http2) shutdown(ctx context.Context) <-chan error {
	result := make(chan error, 1)
	inner := h.innerServer()
	if inner == nil {
		result <- nil
		return result
	}
	go func() { result <- inner.Shutdown(ctx) }()
	return result
}

func (h *http2) close() error {
	if inner := h.innerServer(); inner != nil {
		return inner.Close()
	}
	return nil
}

func (h *http2) setKeepAlives(v bool) {
	if inner := h.innerServer(); inner != nil {
		inner.SetKeepAlivesEnabled(v)
	}
}

// moveFromServer moves a connection from the server's list to the inner server's count.
func (h *http2) moveFromServer(c *netconn.Conn) {
	h.server.mu.Lock()
	h.server.conns.Remove(c)
	// under the same lock, so that it is always counted exactly once
	hasEnded := h.openConns.Add(1) == 0
	h.server.mu.Unlock()
	h.server.state.SignalClosed()
	if hasEnded { // the inner server closed it before it was counted
		h.server.stopIfUnused()
	}
}

// contextHandler sets http.ServerContextKey to the server's own settings.
type contextHandler struct {
	server  *Server
	handler http.Handler
}

func (h contextHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if settings := h.server.settings; r.Context().Value(http.ServerContextKey) != settings {
		r = r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, settings))
	}
	if h.server.state.Retired.Load() {
		// net/http sends GOAWAY and accepts no more streams
		w.Header()["Connection"] = []string{"close"}
	}
	defer func() { // net/http would check the request that it made itself
		if r.MultipartForm != nil {
			_ = r.MultipartForm.RemoveAll()
		}
	}()
	h.handler.ServeHTTP(w, r)
}

// handOffListener is a listener that returns the connections that are handed to it.
type handOffListener struct {
	handOffs chan handOffConn
	closed   chan struct{}
	once     sync.Once
	ctx      context.Context // of the last connection; used by the accepting goroutine
}

type handOffConn struct {
	nc  net.Conn
	ctx context.Context
}

func newHandOffListener() *handOffListener {
	return &handOffListener{handOffs: make(chan handOffConn), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *handOffListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.handOffs:
		l.ctx = c.ctx
		return c.nc, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *handOffListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener. Its result is not used.
func (l *handOffListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }
