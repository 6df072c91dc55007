package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/netconn"
	"github.com/tarehq/tare/internal/engine/shard"
)

// Server accepts connections and owns them. Its settings are those of the http.Server that it was
// made for, and the exported fields, which are those of tare.Server unless a comment describes
// them. Serve reads both.
type Server struct {
	Dispatch            Dispatch
	SendTimeout         time.Duration
	MaxFieldBytes       int
	MaxHeaderValueCount int
	ExtendedConnect     bool
	Plaintext           http.Handler
	Refused             func(Refusal)

	// FastCGI makes connections speak FastCGI instead of HTTP.
	FastCGI bool

	// Unused, if not nil, is called when no Serve runs and no connection is open any more.
	Unused func()

	settings *http.Server
	state    exchange.ServerState

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	listening sync.WaitGroup             // counts listeners; grows while mu is locked
	conns     map[*netconn.Conn]struct{} // on the goroutine path, or above a socket that is awaited
	shards    *shard.Group               // nil until a listener needs them
}

// Refusal is a request that no handler sees.
type Refusal = exchange.Refusal

// Dispatch selects where the handlers of shards run.
type Dispatch = shard.Dispatch

// The values of Dispatch.
const (
	Predicted    = shard.Predicted
	OnLoop       = shard.OnLoop
	OwnGoroutine = shard.OwnGoroutine
)

// New returns a server for the settings. The caller must not change them after it has called Serve.
func New(settings *http.Server) *Server {
	s := &Server{settings: settings, listeners: make(map[net.Listener]struct{}),
		conns: make(map[*netconn.Conn]struct{})}
	s.state.Logf = s.logf
	s.state.ConnClosed = make(chan struct{}, 1)
	s.state.KeepAlivesDisabled = keepAlivesDisabled(settings)
	return s
}

// Serve accepts connections on l until Shutdown or Close, and then returns http.ErrServerClosed. It
// returns early if Accept fails permanently. It closes l.
func (s *Server) Serve(l net.Listener) error { return s.ServeTLS(l, nil) }

// ServeTLS is Serve for TLS connections on the connections that l accepts, unless secure is nil.
// Unlike Serve with a listener of package tls, it serves the sockets of package net on shards.
func (s *Server) ServeTLS(l net.Listener, secure *tls.Config) error {
	once := &onceCloseListener{Listener: l, closed: make(chan struct{})}
	once.close = sync.OnceValue(func() error { defer close(once.closed); return l.Close() })
	defer func() { _ = once.Close() }()
	if !s.trackListener(once) {
		return http.ErrServerClosed
	}
	defer s.untrackListener(once)
	p := s.newServeConfig(l, secure)
	defer p.netConns.Stop()
	accept := s.shardAcceptor(p, once)
	if accept == nil {
		accept = func() error { return s.acceptConn(p, once) }
	}
	var delay, loggedDelay time.Duration
	var logged time.Time
	for {
		err := accept()
		if err == nil {
			delay = 0
			continue
		}
		if s.state.Closing.Load() {
			return http.ErrServerClosed
		}
		if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Temporary() { //nolint:staticcheck // as net/http does
			return err
		}
		delay = min(max(2*delay, 5*time.Millisecond), time.Second)
		// At the limit of descriptors Accept may succeed and fail in turns, hundreds of times a minute.
		if delay > loggedDelay || time.Since(logged) > acceptLogInterval {
			s.logf("http: Accept error: %v; retrying in %v", err, delay)
			logged, loggedDelay = time.Now(), delay
		}
		time.Sleep(delay)
	}
}

// acceptLogInterval is how often an error of Accept is logged whose delay is not longer than the
// last.
const acceptLogInterval = 10 * time.Second

// acceptConn accepts a connection of a listener that shards do not accept from.
func (s *Server) acceptConn(p *serveConfig, l net.Listener) error {
	nc, err := l.Accept()
	if err != nil {
		s.group().MakeRoom(err)
		return err
	}
	if above, ok := nc.(connection.AboveSocket); ok {
		s.startSocket(p, above)
	} else {
		s.startConn(p, nc, p.exchanges.BaseContext)
	}
	return nil
}

// startConn serves a connection on the goroutine path.
func (s *Server) startConn(p *serveConfig, nc net.Conn, ctx context.Context) {
	s.state.AcceptedConns.Add(1)
	if p.exchanges.TLS != nil {
		nc = tls.Server(nc, p.exchanges.TLS)
	}
	if s.settings.ConnContext != nil {
		if ctx = s.settings.ConnContext(ctx, nc); ctx == nil {
			panic("ConnContext returned nil")
		}
	}
	c := netconn.New(&p.netConns, nc, ctx)
	if !s.track(c) {
		nc.Close()
		return
	}
	c.CallStateHook(http.StateNew)
	c.Serve()
}

// startSocket serves the socket beneath a connection, once that has returned it.
func (s *Server) startSocket(p *serveConfig, above connection.AboveSocket) {
	c := netconn.New(&p.netConns, above, p.exchanges.BaseContext)
	if !s.track(c) {
		above.Close()
		return
	}
	go func() {
		defer s.untrack(c)
		nc, ctx, err := above.Socket(p.exchanges.BaseContext, time.Now().Add(p.exchanges.HeadTimeout))
		switch {
		case err != nil || !c.ClaimNew():
			s.state.AcceptedConns.Add(1)
			above.Close()
		case !s.adopt(p, nc, ctx):
			s.startConn(p, nc, ctx)
		}
	}()
}

// adopt puts a connection on a shard. It reports false if it cannot.
func (s *Server) adopt(p *serveConfig, nc net.Conn, ctx context.Context) bool {
	if !p.usesShards {
		return false
	}
	g, err := s.ensureGroup()
	return err == nil && g.Adopt(&p.shards, nc, ctx)
}

// StopListening closes the listeners. No later Serve accepts connections. Shutdown and Close call
// it first.
func (s *Server) StopListening() (err error) {
	s.state.Closing.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		// the owner may have closed it, which Serve notices late while shards accept
		if e := l.Close(); !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// WaitListeners returns when no Serve accepts connections any more.
func (s *Server) WaitListeners() { s.listening.Wait() }

// Shutdown stops accepting and closes connections that wait for a request. It returns when the
// other connections have finished their requests, or with ctx's error. Connections that were
// accepted before, or on which a part of a request has arrived, are served.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.StopListening()
	recheck := time.NewTicker(exchange.NewGrace / 50)
	defer recheck.Stop()
	for {
		// first, because a connection that was accepted before is counted below
		mayStop := !s.mayAccept()
		if s.closeIdle() == 0 && mayStop {
			s.state.SignalClosed() // for another call of Shutdown
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.state.ConnClosed:
		case <-recheck.C:
		}
	}
}

// Close closes all listeners and connections at once, except hijacked connections.
func (s *Server) Close() error {
	s.state.Aborted.Store(true)
	err := s.StopListening()
	s.closeConns(func(*netconn.Conn) bool { return true })
	s.group().CloseAll()
	return err
}

// Connections returns how many connections were accepted, and how many are open. Hijacked
// connections are not counted as open.
func (s *Server) Connections() (accepted, open int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.AcceptedConns.Load(), int64(len(s.conns)) + s.shards.Open()
}

// Reading returns the number of connections on which a part of a request's head has arrived.
func (s *Server) Reading() int64 { return s.state.PartialHeads.Load() }

// Closed reports whether Shutdown or Close was called.
func (s *Server) Closed() bool { return s.state.Closing.Load() }

// keepAlivesDisabled returns the flag of SetKeepAlivesEnabled. It is http.Server's own, so that a
// call of either method has an effect. No method of package http returns it.
func keepAlivesDisabled(settings *http.Server) *atomic.Bool {
	flag := reflect.ValueOf(settings).Elem().FieldByName("disableKeepAlives")
	if flag.IsValid() && flag.Type() == reflect.TypeFor[atomic.Bool]() {
		return (*atomic.Bool)(flag.Addr().UnsafePointer())
	}
	return new(atomic.Bool)
}

// SetKeepAlivesEnabled does what http.Server.SetKeepAlivesEnabled does.
func (s *Server) SetKeepAlivesEnabled(v bool) {
	if s.state.KeepAlivesDisabled.Store(!v); !v {
		s.closeIdle()
	}
}

// closeIdle closes the connections that wait for a request, and returns how many stay open. It
// counts those of shards last, because connections move only to shards.
func (s *Server) closeIdle() int {
	return s.closeConns((*netconn.Conn).ClaimForClosing) + s.group().CloseIdle()
}

// Retire makes every connection end after the response to its next request. The response announces
// the end. Retire closes no connection itself.
func (s *Server) Retire() { s.state.Retired.Store(true) }

func (s *Server) trackListener(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Closing.Load() {
		return false
	}
	s.listeners[l] = struct{}{}
	s.listening.Add(1)
	return true
}

func (s *Server) untrackListener(l net.Listener) {
	s.mu.Lock()
	delete(s.listeners, l)
	s.mu.Unlock()
	s.listening.Done()
	s.state.SignalClosed()
	s.stopIfUnused()
}

// mayAccept reports whether a Serve call may still add connections.
func (s *Server) mayAccept() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.state.Aborted.Load() && len(s.listeners) > 0
}

func (s *Server) track(c *netconn.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Aborted.Load() {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) untrack(c *netconn.Conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.state.SignalClosed()
	s.stopIfUnused()
}

// closeConns closes the connections that which selects. It returns the number of connections that
// Shutdown waits for.
func (s *Server) closeConns(which func(*netconn.Conn) bool) (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if which(c) {
			c.NetConn.Close() // its goroutine notices, and untracks it
		}
		if c.HoldsUpShutdown() {
			left++
		}
	}
	return left
}

func (s *Server) logf(format string, args ...any) {
	if l := s.settings.ErrorLog; l != nil {
		l.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}

// onceCloseListener allows both Serve and Shutdown to close a listener.
type onceCloseListener struct {
	net.Listener
	close  func() error
	closed chan struct{} // closed by Close
}

func (l *onceCloseListener) Close() error { return l.close() }

// shardAcceptor returns a function that accepts a connection of l for the shards. It returns nil if
// l's connections must take the goroutine path.
func (s *Server) shardAcceptor(p *serveConfig, l *onceCloseListener) func() error {
	if !shard.Supports(l.Listener) || !p.usesShards {
		return nil
	}
	g, err := s.ensureGroup()
	if err != nil {
		s.logf("http: no shards: %v; serving with a goroutine for each connection", err)
		return nil
	}
	return g.Accept(&p.shards, l.closed)
}

// ensureGroup returns the server's shards and starts them if necessary.
func (s *Server) ensureGroup() (*shard.Group, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shards != nil {
		return s.shards, nil
	}
	g, err := shard.NewGroup(&s.state, s.stopIfUnused)
	if err == nil {
		s.shards = g
	}
	return g, err
}

// group returns the shards, or nil if there are none.
func (s *Server) group() *shard.Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shards
}

// A server whose listeners were closed serves its open connections until they end, as net/http
// does. Its other goroutines and descriptors end with the last connection. A later Serve creates
// them again.

// IsUnused reports whether no Serve runs, and no connection is open.
func (s *Server) IsUnused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isUnused()
}

// isUnused is IsUnused for a caller that holds the mutex.
func (s *Server) isUnused() bool {
	return len(s.listeners) == 0 && len(s.conns) == 0 && s.shards.Open() == 0
}

// stopIfUnused stops the shards if there are no connections and no listeners.
func (s *Server) stopIfUnused() {
	s.mu.Lock()
	if !s.isUnused() {
		s.mu.Unlock()
		return
	}
	g := s.shards
	s.shards = nil
	s.mu.Unlock()
	g.Stop()
	if s.Unused != nil && !s.state.Closing.Load() {
		s.Unused()
	}
}
