package tare

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/engine"
)

// Server serves what an http.Server describes. It embeds that server: the fields have the same
// meaning, and http.ServerContextKey returns the embedded server to handlers. Fields are read when
// Serve is called and must not be changed afterwards, except for Handler.
//
// Shutdown and Close of the http.Server also shut down and close the Server, once Serve has been
// called. Its SetKeepAlivesEnabled applies to the Server, but only that of the Server closes idle
// connections.
//
// Use Wrap to make a Server.
type Server struct {
	*http.Server

	// Dispatch selects where handlers run. The default is Predicted. It must be set before the
	// first Serve. It applies to TCP and unix sockets on Linux. Elsewhere, and over other
	// connections, each connection has a goroutine.
	Dispatch Dispatch

	// SendTimeout limits the time in which a client receives none of the bytes that are being sent
	// to it. 0 is no limit. The duration of a whole response is limited by WriteTimeout
	// instead. A handler can change SendTimeout for its response, if its ResponseWriter implements
	//
	//	interface{ SetSendTimeout(time.Duration) error }
	//
	// It is read when Serve is first called.
	SendTimeout time.Duration

	// ExtendedConnect offers clients of HTTP/2 extended CONNECT (RFC 8441), by which browsers open
	// websockets over HTTP/2. A handler then receives a request with the method CONNECT, a path,
	// and the protocol in Header[":protocol"], as from net/http. It responds with 200, and
	// exchanges data by the request's body and the ResponseWriter; it cannot hijack the connection.
	// Without ExtendedConnect browsers open websockets over HTTP/1.1, which websocket packages
	// need. GODEBUG=http2xconnect=1 has the same effect, also on net/http. It is read when Serve is
	// first called.
	ExtendedConnect bool

	// Plaintext, if not nil, handles HTTP/1 requests that arrive without TLS at ServeTLS, for
	// example to redirect them. Such a connection serves one request. Without Plaintext, and where
	// Dispatch has no effect, the response is 400, as from net/http. It is read when Serve is first
	// called.
	Plaintext http.Handler

	// MaxFieldBytes limits each line of a request's head. Over HTTP/2 it limits each name and value,
	// as the client encodes it. 0 is no limit besides MaxHeaderBytes. It is read
	// when Serve is first called.
	MaxFieldBytes int

	// Refused, if not nil, is called for each request that is rejected before a handler runs:
	// because it is malformed, too large, or its head did not arrive in time. It is meant for logs.
	// It must not block, because it may run in a goroutine that serves other connections. A panic
	// in it is logged. It is not called for a connection on which the client has sent nothing, nor
	// for a request of HTTP/2 whose head has not arrived completely when its client leaves, or
	// whose stream is one too many. It is read when Serve is first called.
	Refused func(Refusal)

	// MaxHeaderValueCount limits the field lines of a request's head. It is the field of http.Server
	// that Go 1.27 has added, for programs that Go 1.26 builds. 0 means that of the wrapped
	// http.Server, if it has one, or else 500. It is read when Serve is first called.
	MaxHeaderValueCount int

	once   sync.Once
	engine *engine.Server

	registering sync.Once

	mu      sync.Mutex
	serving int        // calls of Serve that have not returned
	hook    *closeHook // nil before the first Serve, and while nothing is served
}

// Wrap returns a Server that serves what s describes.
func Wrap(s *http.Server) *Server { return &Server{Server: s} }

// ListenAndServe serves handler on the TCP address addr. It returns only if listening or accepting
// fails. If handler is nil, it is http.DefaultServeMux.
func ListenAndServe(addr string, handler http.Handler) error {
	return Wrap(&http.Server{Addr: addr, Handler: handler}).ListenAndServe()
}

// Serve serves handler on the connections that l accepts, until Accept fails. It closes l. If
// handler is nil, it is http.DefaultServeMux.
func Serve(l net.Listener, handler http.Handler) error {
	return Wrap(&http.Server{Handler: handler}).Serve(l)
}

// ListenAndServe listens on the TCP address Addr, or on ":http" if that is empty, and calls Serve.
func (s *Server) ListenAndServe() error {
	if err := s.attachHook(false); err != nil {
		return err
	}
	defer s.detachHook(true)
	l, err := net.Listen("tcp", cmp.Or(s.Addr, ":http"))
	if err != nil {
		return err
	}
	return s.Serve(l)
}

// Serve accepts connections on l and serves them until Shutdown or Close is called. Then it returns
// http.ErrServerClosed at once, while Shutdown may still wait. It closes l. l may be any
// net.Listener. HTTP/2 is served on a *tls.Conn that has negotiated it, and without TLS if
// Protocols enables that.
func (s *Server) Serve(l net.Listener) error {
	if err := s.attachHook(false); err != nil {
		l.Close()
		return err
	}
	defer s.detachHook(true)
	return s.run().Serve(l)
}

// Shutdown stops listening, closes idle connections, and waits until the other connections have
// finished their requests. If ctx ends before, Shutdown returns the error of ctx. It calls the
// functions registered with RegisterOnShutdown. It does not wait for hijacked connections.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.run().StopListening()
	// Both servers shut down concurrently: a handler may wait for one of the registered functions.
	innerErr := make(chan error, 1)
	go func() { innerErr <- s.Server.Shutdown(ctx) }()
	engineErr := s.run().Shutdown(ctx)
	for _, e := range []error{engineErr, <-innerErr} {
		if e != nil && ctx.Err() != nil {
			return ctx.Err() // unwrapped, as net/http returns it
		}
		if err == nil {
			err = e
		}
	}
	return err
}

// Close closes all listeners and connections at once, except hijacked connections.
func (s *Server) Close() error {
	return errors.Join(s.run().Close(), s.Server.Close())
}

// SetKeepAlivesEnabled controls whether a connection serves more than one request. It does by
// default.
func (s *Server) SetKeepAlivesEnabled(v bool) {
	s.run().SetKeepAlivesEnabled(v)
	s.Server.SetKeepAlivesEnabled(v)
}

// Retire ends each connection after the response to its next request, with Connection: close, or
// with GOAWAY over HTTP/2. It closes no connection itself. A program can use it to hand its clients
// over to another process, once its listener is closed, without losing a request.
func (s *Server) Retire() { s.run().Retire() }

// Connections returns the number of connections accepted since the first Serve, and the number of
// open ones. Hijacked connections are not open. Unlike a ConnState hook, Connections has no cost
// for a request.
func (s *Server) Connections() (accepted, open int64) { return s.run().Connections() }

// Reading returns the number of open connections on which the head of a request has arrived in
// part. HTTP/2 connections do not count.
func (s *Server) Reading() int64 { return s.run().Reading() }

func (s *Server) run() *engine.Server {
	s.once.Do(func() {
		s.engine = engine.New(s.Server)
		s.engine.Unused = func() { s.detachHook(false) }
		s.engine.Dispatch, s.engine.SendTimeout, s.engine.Refused = s.Dispatch, s.SendTimeout, s.Refused
		s.engine.MaxFieldBytes, s.engine.MaxHeaderValueCount = s.MaxFieldBytes, s.MaxHeaderValueCount
		s.engine.ExtendedConnect, s.engine.Plaintext = s.ExtendedConnect, s.Plaintext
	})
	return s.engine
}

// Refusal describes a rejected request and the response to it.
type Refusal = engine.Refusal

// Dispatch selects where the handlers of a Server run.
type Dispatch = engine.Dispatch

// The values of Dispatch.
const (
	// Predicted runs a handler on the poll loop if it has been quick for similar requests, and in
	// its own goroutine otherwise.
	Predicted = engine.Predicted
	// OnLoop runs all handlers on the poll loop, which is best if no handler ever blocks. A handler
	// that blocks moves to a goroutine after a delay.
	OnLoop = engine.OnLoop
	// OwnGoroutine runs no handler on the poll loop.
	OwnGoroutine = engine.OwnGoroutine
)

// attachHook attaches a close hook to the wrapped server, unless there is one. It fails if one of
// the servers is closed.
func (s *Server) attachHook(isTLS bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run().Closed() {
		return http.ErrServerClosed
	}
	if s.hook == nil {
		s.registering.Do(func() {
			hideCloseHooks(s.Server)
			s.RegisterOnShutdown(s.shutDown)
		})
		h, err := attachCloseHook(s.Server, s.engine, isTLS)
		if err != nil {
			return err
		}
		s.hook = h
	}
	s.serving++
	return nil
}

// shutDown shuts down the engine because the wrapped server is shutting down.
func (s *Server) shutDown() {
	_ = s.engine.Shutdown(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hook != nil {
		s.hook.release()
	}
}

// detachHook detaches the close hook if neither server was closed but nothing is served any more:
// all listeners are closed and all connections have ended. It is called when a Serve returns, and
// when the engine's last connection ends.
func (s *Server) detachHook(isServeEnd bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isServeEnd {
		s.serving--
	}
	if s.hook != nil && s.serving == 0 && !s.engine.Closed() && s.engine.IsUnused() {
		s.hook.detach()
		s.hook = nil
	}
}
