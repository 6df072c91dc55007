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

// Server accepts connections and owns them. Its settings are those of the
// http.Server it was made for, read when Serve is called.
type Server struct {
	// Dispatch is read when Serve is called.
	Dispatch Dispatch

	// FastCGI is whether connections speak FastCGI instead of HTTP; read when Serve is
	// called.
	FastCGI bool

	// SendTimeout bounds the time in which a client takes nothing of what is being sent, on
	// every connection of HTTP/1 and FastCGI; 0 is no bound. Handlers change it with
	// SetSendTimeout. Read when Serve is called.
	SendTimeout time.Duration

	// Unused, if it is not nil, is called when no Serve runs, and no connection is open any more.
	Unused func()

	// Refused, if it is not nil, is called for each request of HTTP/1 that no handler sees. It must not
	// wait: others are served in the same goroutine. Read when Serve is called.
	Refused func(Refusal)

	settings *http.Server
	date     dateCache

	closing    atomic.Bool // Shutdown or Close was called
	noReuse    atomic.Bool // SetKeepAlivesEnabled(false)
	retired    atomic.Bool // Retire was called
	mu         sync.Mutex
	listeners  map[net.Listener]struct{}
	conns      netConns
	shards     *group // nil until a listener needs it
	http2      http2
	reserve    reserve
	accepted   atomic.Int64  // connections
	connClosed chan struct{} // holds one token when a connection has gone
}

// New returns a server for the settings, which the caller leaves alone once Serve
// was called.
func New(settings *http.Server) *Server {
	s := &Server{
		settings:   settings,
		listeners:  make(map[net.Listener]struct{}),
		connClosed: make(chan struct{}, 1),
	}
	s.http2.server = s
	return s
}

// plan is what one Serve call needs of the settings, worked out once.
type plan struct {
	*Server
	protocol  protocol
	listener  net.Listener
	homes     atomic.Pointer[[]*home] // by shard
	workers   *workers                // on the portable path
	handler   http.Handler
	base      context.Context // of all its connections
	limits    http1.Limits
	dispatch  Dispatch
	headTime  time.Duration // never 0
	read      time.Duration // 0 is without bound, as are the following
	write     time.Duration
	idle      time.Duration
	stallTime time.Duration // SendTimeout
	refused   func(Refusal)
	handshake time.Duration
	http1     bool // is served
	h2c       bool // HTTP/2 without TLS is served, too
}

func (s *Server) plan(l net.Listener) *plan {
	set := s.settings
	p := &plan{
		Server: s, listener: l, workers: newWorkers(), dispatch: s.Dispatch, handler: handlerOf(set), base: context.Background(),
		read: max(0, set.ReadTimeout), write: max(0, set.WriteTimeout), idle: set.IdleTimeout, stallTime: max(0, s.SendTimeout), refused: s.Refused,
		limits: http1.Limits{Bytes: http.DefaultMaxHeaderBytes + headSlop, Fields: maxFields},
	}
	if set.BaseContext != nil {
		if p.base = set.BaseContext(l); p.base == nil {
			panic("BaseContext returned a nil context")
		}
	}
	if p.protocol = protocol(overHTTP{}); s.FastCGI {
		p.protocol = overFastCGI{}
	} else {
		p.base = context.WithValue(p.base, http.ServerContextKey, set)
	}
	if set.MaxHeaderBytes > 0 {
		p.limits.Bytes = min(set.MaxHeaderBytes, math.MaxInt32-headSlop) + headSlop
	}
	if p.idle == 0 {
		p.idle = p.read
	}
	p.idle = max(0, p.idle)
	switch {
	case set.ReadHeaderTimeout > 0:
		p.headTime = set.ReadHeaderTimeout
	case p.read > 0:
		p.headTime = p.read
	default:
		p.headTime = defaultHeadTimeout
	}
	p.handshake = p.headTime
	for _, d := range []time.Duration{p.read, p.write} {
		if d > 0 {
			p.handshake = min(p.handshake, d)
		}
	}
	protocols := s.protocols()
	p.http1, p.h2c = s.FastCGI || protocols.HTTP1(), !s.FastCGI && protocols.UnencryptedHTTP2() && s.http2.works()
	return p
}

// handlerOf is the settings' handler, with "OPTIONS *" answered as net/http does.
func handlerOf(set *http.Server) http.Handler {
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

// Serve accepts connections on l until Shutdown or Close, and then returns
// http.ErrServerClosed, or until Accept fails for good. It closes l.
func (s *Server) Serve(l net.Listener) error {
	once := &onceCloseListener{Listener: l}
	defer func() { _ = once.Close() }()
	if !s.trackListener(once) {
		return http.ErrServerClosed
	}
	defer s.forgetListener(once)
	if s.wantsHTTP2() {
		if err := s.http2.configure(); err != nil {
			return err
		}
	}
	p := s.plan(l)
	defer p.workers.stop()
	s.reserve.retain()
	defer s.reserve.release()
	var accept func() error
	if p.http1 && !p.h2c {
		accept = s.socketAcceptor(p, l)
	}
	if accept == nil {
		accept = func() error {
			nc, err := once.Accept()
			if err == nil {
				s.start(p, nc)
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
		if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Temporary() { //nolint:staticcheck // what net/http asks, too
			return err
		}
		delay = min(max(2*delay, 5*time.Millisecond), time.Second)
		s.logf("http: Accept error: %v; retrying in %v", err, delay)
		time.Sleep(delay)
	}
}

// wantsHTTP2 reports whether connections that speak HTTP/2 are to be expected, so
// that it should be known from the start whether they can be served.
func (s *Server) wantsHTTP2() bool {
	config, protocols := s.settings.TLSConfig, s.protocols()
	if s.FastCGI {
		return false
	}
	return protocols.UnencryptedHTTP2() ||
		protocols.HTTP2() && config != nil && slices.Contains(config.NextProtos, protoHTTP2) && s.nextProto(protoHTTP2) == nil
}

func (s *Server) start(p *plan, nc net.Conn) {
	ctx := p.base
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
	c.tell(http.StateNew)
	p.workers.serve(c)
}

// StopListening closes the listeners for good, with which Shutdown and Close begin.
func (s *Server) StopListening() (err error) {
	s.closing.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		err = errors.Join(err, l.Close())
	}
	return err
}

// Shutdown stops accepting, closes connections that wait for a request, and
// returns when the others have finished theirs, or with ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.StopListening()
	http2 := s.http2.shutdown(ctx)
	recheck := time.NewTicker(newGrace / 50)
	defer recheck.Stop()
	for {
		if s.closeConns((*netConn).claimForClosing)+s.group().closeWaiting() == 0 {
			if theirs := <-http2; err == nil {
				err = theirs
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

// Close closes all listeners and connections at once, but for those that a
// handler took over.
func (s *Server) Close() error {
	err := s.StopListening()
	s.closeConns(func(*netConn) bool { return true })
	s.group().closeAll()
	return errors.Join(err, s.http2.close())
}

// Connections returns how many connections were accepted, and how many are open. Those that handlers took over are not.
func (s *Server) Connections() (accepted, open int64) {
	onShards := s.group().open()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted.Load(), onShards + int64(s.conns.n) + s.http2.open.Load()
}

// Closed reports whether Shutdown or Close was called.
func (s *Server) Closed() bool { return s.closing.Load() }

// SetKeepAlivesEnabled is http.Server's method of that name.
func (s *Server) SetKeepAlivesEnabled(v bool) {
	if s.noReuse.Store(!v); !v {
		s.closeConns((*netConn).claimForClosing)
		s.group().closeWaiting()
	}
	s.http2.setKeepAlives(v)
}

// Retire has every connection end behind the response to its next request, which announces that. It closes none.
func (s *Server) Retire() { s.retired.Store(true) }

func (s *Server) reuses() bool { return !s.noReuse.Load() && !s.closing.Load() }

// group returns the shards, if there are any.
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

func (s *Server) forgetListener(l net.Listener) {
	s.mu.Lock()
	delete(s.listeners, l)
	s.mu.Unlock()
	s.endIfUnused()
}

func (s *Server) track(c *netConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return false
	}
	s.conns.add(c)
	s.accepted.Add(1)
	return true
}

func (s *Server) forget(c *netConn) {
	s.mu.Lock()
	s.conns.remove(c)
	s.mu.Unlock()
	s.noteClosed()
	s.endIfUnused()
}

// noteClosed wakes Shutdown.
func (s *Server) noteClosed() {
	select {
	case s.connClosed <- struct{}{}:
	default:
	}
}

// closeConns closes the connections that which picks and returns how many there
// are in all.
func (s *Server) closeConns(which func(*netConn) bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := s.conns.first; c != nil; c = c.after {
		if which(c) {
			c.nc.Close() // its goroutine notices, and forgets it
		}
	}
	return s.conns.n
}

// netConns is a list of connections, linked through them: a map would have each pay for
// two hashes and, now and then, for its growth.
type netConns struct {
	first *netConn
	n     int
}

func (l *netConns) add(c *netConn) {
	if c.after = l.first; c.after != nil {
		c.after.before = c
	}
	l.first = c
	l.n++
}

func (l *netConns) remove(c *netConn) {
	if c.before != nil {
		c.before.after = c.after
	} else {
		l.first = c.after
	}
	if c.after != nil {
		c.after.before = c.before
	}
	c.before, c.after = nil, nil
	l.n--
}

func (s *Server) logf(format string, args ...any) {
	if l := s.settings.ErrorLog; l != nil {
		l.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}

// onceCloseListener lets Serve and Shutdown both close a listener.
type onceCloseListener struct {
	net.Listener
	once sync.Once
	err  error
}

func (l *onceCloseListener) Close() error {
	l.once.Do(func() { l.err = l.Listener.Close() })
	return l.err
}
