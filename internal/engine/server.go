package engine

import (
	"context"
	"errors"
	"log"
	"math"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/wire/http1"
)

// Server accepts connections and owns them. Its settings are those of the http.Server that it was
// made for. Serve reads them.
type Server struct {
	// Dispatch selects where handlers run. Serve reads it.
	Dispatch Dispatch

	// FastCGI makes connections speak FastCGI instead of HTTP. Serve reads it.
	FastCGI bool

	// SendTimeout limits how long a client may accept none of the response bytes that are being
	// sent, on every connection of HTTP/1 and FastCGI. 0 is no limit. Handlers change it with
	// SetSendTimeout. Serve reads it.
	SendTimeout time.Duration

	// Unused, if not nil, is called when no Serve runs and no connection is open any more.
	Unused func()

	// Refused, if not nil, is called for each HTTP/1 request that no handler sees. It must not
	// block: the same goroutine serves other requests. Serve reads it.
	Refused func(Refusal)

	settings *http.Server
	date     dateCache

	closing            atomic.Bool // after Shutdown or Close
	keepAlivesDisabled atomic.Bool // after SetKeepAlivesEnabled(false)
	retired            atomic.Bool // after Retire
	mu                 sync.Mutex
	listeners          map[net.Listener]struct{}
	conns              netConnList
	shards             *group // nil until a listener needs them
	http2              http2
	reserve            reserve
	acceptedConns      atomic.Int64  // total of accepted connections
	connClosed         chan struct{} // holds one token after a connection has closed
}

// New returns a server for the settings. The caller must not change them after it has called Serve.
func New(settings *http.Server) *Server {
	s := &Server{
		settings:   settings,
		listeners:  make(map[net.Listener]struct{}),
		connClosed: make(chan struct{}, 1),
	}
	s.http2.server = s
	return s
}

// serveConfig holds the settings of one Serve call in the form in which connections use them.
type serveConfig struct {
	*Server
	codec              codec
	listener           net.Listener
	placements         atomic.Pointer[[]*placement] // indexed by shard
	workers            *workers                     // of the goroutine path
	handler            http.Handler
	baseContext        context.Context // parent of the contexts of all its connections
	limits             http1.Limits
	dispatch           Dispatch
	headTimeout        time.Duration // never 0
	readTimeout        time.Duration // 0 is no limit, here and in the next three
	writeTimeout       time.Duration
	idleTimeout        time.Duration
	defaultSendTimeout time.Duration // Server.SendTimeout
	onRefused          func(Refusal)
	handshakeTimeout   time.Duration
	servesHTTP1        bool
	servesH2C          bool // HTTP/2 without TLS
}

func (s *Server) newServeConfig(l net.Listener) *serveConfig {
	set := s.settings
	p := &serveConfig{
		Server: s, listener: l, workers: newWorkers(), dispatch: s.Dispatch, handler: handlerFor(set),
		baseContext: context.Background(),
		readTimeout: max(0, set.ReadTimeout), writeTimeout: max(0, set.WriteTimeout), idleTimeout: set.IdleTimeout,
		defaultSendTimeout: max(0, s.SendTimeout), onRefused: s.Refused,
		limits: http1.Limits{Bytes: http.DefaultMaxHeaderBytes + headSlop, Fields: maxFields},
	}
	if set.BaseContext != nil {
		if p.baseContext = set.BaseContext(l); p.baseContext == nil {
			panic("BaseContext returned a nil context")
		}
	}
	if p.codec = codec(http1Codec{}); s.FastCGI {
		p.codec = fcgiCodec{}
	} else {
		p.baseContext = context.WithValue(p.baseContext, http.ServerContextKey, set)
	}
	if set.MaxHeaderBytes > 0 {
		p.limits.Bytes = min(set.MaxHeaderBytes, math.MaxInt32-headSlop) + headSlop
	}
	if p.idleTimeout == 0 {
		p.idleTimeout = p.readTimeout
	}
	p.idleTimeout = max(0, p.idleTimeout)
	switch {
	case set.ReadHeaderTimeout > 0:
		p.headTimeout = set.ReadHeaderTimeout
	case p.readTimeout > 0:
		p.headTimeout = p.readTimeout
	default:
		p.headTimeout = defaultHeadTimeout
	}
	p.handshakeTimeout = p.headTimeout
	for _, d := range []time.Duration{p.readTimeout, p.writeTimeout} {
		if d > 0 {
			p.handshakeTimeout = min(p.handshakeTimeout, d)
		}
	}
	protocols := s.protocols()
	p.servesHTTP1, p.servesH2C = s.FastCGI || protocols.HTTP1(), !s.FastCGI && protocols.UnencryptedHTTP2() &&
		s.http2.supported()
	return p
}

// handlerFor returns the handler of the settings. It handles "OPTIONS *" as net/http does.
func handlerFor(set *http.Server) http.Handler {
	h := set.Handler
	if h == nil {
		h = http.DefaultServeMux
	}
	if set.DisableGeneralOptionsHandler {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI == "*" && r.Method == http.MethodOptions {
			w.Header().Set("Content-Length", "0")
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Serve accepts connections on l until Shutdown or Close, and then returns http.ErrServerClosed. It
// returns early if Accept fails permanently. It closes l.
func (s *Server) Serve(l net.Listener) error {
	once := &onceCloseListener{Listener: l}
	defer func() { _ = once.Close() }()
	if !s.trackListener(once) {
		return http.ErrServerClosed
	}
	defer s.untrackListener(once)
	if s.expectsHTTP2() {
		if err := s.http2.configure(); err != nil {
			return err
		}
	}
	p := s.newServeConfig(l)
	defer p.workers.stop()
	s.reserve.retain()
	defer s.reserve.release()
	var accept func() error
	if p.servesHTTP1 && !p.servesH2C {
		accept = s.socketAcceptor(p, l)
	}
	if accept == nil {
		accept = func() error {
			nc, err := once.Accept()
			if err == nil {
				s.startConn(p, nc)
			}
			return err
		}
	}
	var delay time.Duration
	for {
		err := accept()
		if err == nil {
			delay = 0
			continue
		}
		if s.closing.Load() {
			return http.ErrServerClosed
		}
		if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Temporary() { //nolint:staticcheck // as net/http does
			return err
		}
		delay = min(max(2*delay, 5*time.Millisecond), time.Second)
		s.logf("http: Accept error: %v; retrying in %v", err, delay)
		time.Sleep(delay)
	}
}

// expectsHTTP2 reports whether the settings enable HTTP/2, so that Serve can fail at once if it
// cannot be served.
func (s *Server) expectsHTTP2() bool {
	config, protocols := s.settings.TLSConfig, s.protocols()
	if s.FastCGI {
		return false
	}
	return protocols.UnencryptedHTTP2() ||
		protocols.HTTP2() && config != nil && slices.Contains(config.NextProtos, protoHTTP2) &&
			s.nextProto(protoHTTP2) == nil
}

func (s *Server) startConn(p *serveConfig, nc net.Conn) {
	ctx := p.baseContext
	if s.settings.ConnContext != nil {
		if ctx = s.settings.ConnContext(ctx, nc); ctx == nil {
			panic("ConnContext returned nil")
		}
	}
	c := newNetConn(p, nc, ctx)
	if !s.track(c) {
		nc.Close()
		return
	}
	c.callStateHook(http.StateNew)
	p.workers.serve(c)
}

// StopListening closes the listeners. No later Serve accepts connections. Shutdown and Close call
// it first.
func (s *Server) StopListening() (err error) {
	s.closing.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		err = errors.Join(err, l.Close())
	}
	return err
}

// Shutdown stops accepting and closes connections that wait for a request. It returns when the
// other connections have finished their requests, or with ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.StopListening()
	http2 := s.http2.shutdown(ctx)
	recheck := time.NewTicker(newGrace / 50)
	defer recheck.Stop()
	for {
		if s.closeConns((*netConn).claimForClosing)+s.group().closeIdle() == 0 {
			if http2Err := <-http2; err == nil {
				err = http2Err
			}
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.connClosed:
		case <-recheck.C:
		}
	}
}

// Close closes all listeners and connections at once, except hijacked connections.
func (s *Server) Close() error {
	err := s.StopListening()
	s.closeConns(func(*netConn) bool { return true })
	s.group().closeAll()
	return errors.Join(err, s.http2.close())
}

// Connections returns how many connections were accepted, and how many are open. Hijacked
// connections are not counted as open.
func (s *Server) Connections() (accepted, open int64) {
	onShards := s.group().open()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acceptedConns.Load(), onShards + int64(s.conns.n) + s.http2.openConns.Load()
}

// Closed reports whether Shutdown or Close was called.
func (s *Server) Closed() bool { return s.closing.Load() }

// SetKeepAlivesEnabled does what http.Server.SetKeepAlivesEnabled does.
func (s *Server) SetKeepAlivesEnabled(v bool) {
	if s.keepAlivesDisabled.Store(!v); !v {
		s.closeConns((*netConn).claimForClosing)
		s.group().closeIdle()
	}
	s.http2.setKeepAlives(v)
}

// Retire makes every connection end after the response to its next request, which announces that.
// It closes no connection itself.
func (s *Server) Retire() { s.retired.Store(true) }

func (s *Server) keepsConnections() bool { return !s.keepAlivesDisabled.Load() && !s.closing.Load() }

// group returns the shards, or nil if there are none.
func (s *Server) group() *group {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shards
}

func (s *Server) trackListener(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return false
	}
	s.listeners[l] = struct{}{}
	return true
}

func (s *Server) untrackListener(l net.Listener) {
	s.mu.Lock()
	delete(s.listeners, l)
	s.mu.Unlock()
	s.stopIfUnused()
}

func (s *Server) track(c *netConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return false
	}
	s.conns.add(c)
	s.acceptedConns.Add(1)
	return true
}

func (s *Server) untrack(c *netConn) {
	s.mu.Lock()
	s.conns.remove(c)
	s.mu.Unlock()
	s.signalClosed()
	s.stopIfUnused()
}

// signalClosed wakes Shutdown.
func (s *Server) signalClosed() {
	select {
	case s.connClosed <- struct{}{}:
	default:
	}
}

// closeConns closes the connections for which which returns true. It returns how many connections
// there are.
func (s *Server) closeConns(which func(*netConn) bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := s.conns.first; c != nil; c = c.nextConn {
		if which(c) {
			c.nc.Close() // its goroutine notices, and untracks it
		}
	}
	return s.conns.n
}

// netConnList is an intrusive list of connections. A map would cost each connection two hash
// operations and a share of its growth.
type netConnList struct {
	first *netConn
	n     int
}

func (l *netConnList) add(c *netConn) {
	if c.nextConn = l.first; c.nextConn != nil {
		c.nextConn.prevConn = c
	}
	l.first = c
	l.n++
}

func (l *netConnList) remove(c *netConn) {
	if c.prevConn != nil {
		c.prevConn.nextConn = c.nextConn
	} else {
		l.first = c.nextConn
	}
	if c.nextConn != nil {
		c.nextConn.prevConn = c.prevConn
	}
	c.prevConn, c.nextConn = nil, nil
	l.n--
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
	once sync.Once
	err  error
}

func (l *onceCloseListener) Close() error {
	l.once.Do(func() { l.err = l.Listener.Close() })
	return l.err
}
