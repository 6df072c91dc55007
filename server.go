package tare

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/engine"
)

// Server serves what an http.Server describes. It embeds that server: its fields
// mean what they mean there, and http.ServerContextKey yields it to handlers. They
// are read when Serve is called and must not be changed afterwards.
//
// Shutdown and Close of the http.Server do what those of the Server do, from its
// first Serve on. SetKeepAlivesEnabled must be the Server's.
//
// Make one with Wrap.
type Server struct {
	*http.Server

	// Dispatch says where handlers run; Predicted unless it is set before the first
	// Serve. It concerns TCP and unix sockets on Linux only: everything else has a
	// goroutine for each connection.
	Dispatch Dispatch

	// SendTimeout bounds the time in which a client takes nothing of what is being sent to it, by HTTP/1;
	// 0 is no bound. It says nothing about how long a response may take, which is WriteTimeout's. A
	// handler changes it for its response if it finds
	//
	//	interface{ SetSendTimeout(time.Duration) error }
	//
	// in its ResponseWriter. It is read when Serve is first called.
	SendTimeout time.Duration

	// Refused, if it is not nil, is called for each request by HTTP/1 that no handler sees, because it is
	// malformed, too large, or its head did not arrive in time: for a log. It must not wait, as it may
	// run in a goroutine that serves others. A panic in it is logged. A client that sends nothing makes no
	// request. It is read when Serve is first called.
	Refused func(Refusal)

	once   sync.Once
	engine *engine.Server

	registering sync.Once

	mu      sync.Mutex
	serving int        // calls of Serve
	hook    *closeHook // nil until the first Serve, and where nothing is served any more
}

// Wrap returns a Server for s.
func Wrap(s *http.Server) *Server { return &Server{Server: s} }

// ListenAndServe serves handler on the TCP address addr until the process ends or
// accepting fails. A nil handler is http.DefaultServeMux.
func ListenAndServe(addr string, handler http.Handler) error {
	return Wrap(&http.Server{Addr: addr, Handler: handler}).ListenAndServe()
}

// Serve serves handler on the connections that l accepts until accepting fails, and
// closes l. A nil handler is http.DefaultServeMux.
func Serve(l net.Listener, handler http.Handler) error {
	return Wrap(&http.Server{Handler: handler}).Serve(l)
}

// ListenAndServe listens on the TCP address Addr, ":http" if it is empty, and
// serves as Serve does.
func (s *Server) ListenAndServe() error {
	l, err := s.listen(":http")
	if err != nil {
		return err
	}
	return s.Serve(l)
}

// listen listens on Addr, or else on standard.
func (s *Server) listen(defaultAddr string) (net.Listener, error) {
	if s.closed() {
		return nil, http.ErrServerClosed
	}
	addr := s.Addr
	if addr == "" {
		addr = defaultAddr
	}
	return net.Listen("tcp", addr)
}

// Serve accepts connections on l and serves them until Shutdown or Close is
// called; then it returns http.ErrServerClosed at once, while Shutdown still
// waits. It closes l. Any net.Listener will do, and HTTP/2 is served where a
// *tls.Conn has negotiated it or Protocols ask for it without TLS.
func (s *Server) Serve(l net.Listener) error {
	if err := s.attachHook(); err != nil {
		l.Close()
		return err
	}
	defer s.detachHook(true)
	return s.run().Serve(l)
}

// Shutdown stops listening, closes idle connections, and waits until the others
// have finished their requests or ctx ends, whose error it then returns. The
// functions registered with RegisterOnShutdown are called. It does not wait for
// connections that handlers took over.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.run().StopListening()
	// Both at once: handlers may be waiting for what the registered functions do.
	innerErr := make(chan error, 1)
	go func() { innerErr <- s.Server.Shutdown(ctx) }()
	engineErr := s.run().Shutdown(ctx)
	for _, e := range []error{engineErr, <-innerErr} {
		if e != nil && ctx.Err() != nil {
			return ctx.Err() // itself, as net/http returns it
		}
		if err == nil {
			err = e
		}
	}
	return err
}

// Close closes listeners and connections at once, but for those that handlers took
// over.
func (s *Server) Close() error {
	return errors.Join(s.run().Close(), s.Server.Close())
}

// SetKeepAlivesEnabled controls whether connections serve more than one request;
// they do by default.
func (s *Server) SetKeepAlivesEnabled(v bool) {
	s.run().SetKeepAlivesEnabled(v)
	s.Server.SetKeepAlivesEnabled(v)
}

// Retire has every connection end after the response to its next request: with Connection: close, or GOAWAY over HTTP/2. It closes
// none itself. A server whose listener was closed hands its clients over to another one this way, and no request is lost.
func (s *Server) Retire() { s.run().Retire() }

// Connections returns how many connections were accepted since the first Serve, and how many are open. Those that handlers
// took over with Hijack are not. Unlike a ConnState hook, which has each connection served by a goroutine of its own, it costs
// nothing.
func (s *Server) Connections() (accepted, open int64) { return s.run().Connections() }

func (s *Server) run() *engine.Server {
	s.once.Do(func() {
		s.engine = engine.New(s.Server)
		s.engine.Unused = func() { s.detachHook(false) }
		s.engine.Dispatch, s.engine.SendTimeout, s.engine.Refused = s.Dispatch, s.SendTimeout, s.Refused
	})
	return s.engine
}

// Refusal is a request that no handler sees, and how it was responded to.
type Refusal = engine.Refusal

// Dispatch says where the handlers of a Server run.
type Dispatch = engine.Dispatch

const (
	// Predicted runs those handlers on the poll loop that have been quick for
	// requests like it, and the others in goroutines of their own.
	Predicted = engine.Predicted
	// OnLoop runs all on the loop, which is best where none ever waits. One that
	// does is moved off it while it runs, after a delay.
	OnLoop = engine.OnLoop
	// OwnGoroutine runs none on the loop.
	OwnGoroutine = engine.OwnGoroutine
)

// tie ties the wrapped server to the engine unless it is. It fails if either is
// closed.
func (s *Server) attachHook() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run().Closed() {
		return http.ErrServerClosed
	}
	if s.hook == nil {
		s.registering.Do(func() {
			hideFromConnState(s.Server)
			s.RegisterOnShutdown(s.shutDown)
		})
		t := newCloseHook(s.engine)
		if err := t.attach(s.Server); err != nil {
			return err
		}
		s.hook = t
	}
	s.serving++
	return nil
}

// shutDown shuts the engine down, because the wrapped server is.
func (s *Server) shutDown() {
	_ = s.engine.Shutdown(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hook != nil {
		s.hook.release()
	}
}

// untie ends the tie if nothing is served any more though neither server was closed: the listeners
// were, and all connections have ended. It is called when a Serve has returned, and when the engine
// has no connection.
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

// closed reports whether Shutdown or Close of either server was called.
func (s *Server) closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run().Closed() || s.hook == nil && isClosed(s.Server)
}
