package netconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/h2"
	"github.com/tarehq/tare/internal/engine/reuse"
	"github.com/tarehq/tare/internal/poll"
)

// Config holds what connections with a goroutine need of one Serve call. Start must be called before
// the first of them, and Stop when no more are accepted.
type Config struct {
	Exchanges *exchange.Config
	HTTP2     *h2.Config
	Settings  *http.Server // passed to functions of NextProto; its ConnState is called
	// NextProto returns the function that serves connections of an ALPN protocol, or nil.
	NextProto func(proto string) func(*http.Server, *tls.Conn, http.Handler)
	// Untrack is called when a connection has ended or was hijacked.
	Untrack func(*Conn)

	conns    *exchange.Conns
	workers  *reuse.Workers[struct{}, *Conn]
	streams  *reuse.Workers[struct{}, *h2.Stream] // run the handlers of HTTP/2
	starting chan struct{}                        // Serve sends one for each connection; its worker receives it
}

// inSize is the input buffer of a connection. It grows only for larger heads.
const inSize = 4 << 10

// Conn is a connection of the goroutine path: any net.Conn. A goroutine serves it to its end,
// waits for its input and runs its handlers.
type Conn struct {
	timedConn
	conn   *exchange.Conn // borrowed; nil before and after
	config *Config
	ctx    context.Context // parent of every request's context

	opened   time.Time
	ready    time.Time // when the client could send a request: opened, or the end of the TLS handshake
	requests int       // counted by CountRequest
	number   connection.Number
	state    connState
	inHook   atomic.Bool // the ConnState hook runs
	watch    *departureWatch
	session  atomic.Pointer[h2.Session] // of HTTP/2
}

// New returns a connection with the context that is the parent of its requests' contexts.
func New(p *Config, nc net.Conn, ctx context.Context) *Conn {
	now := time.Now()
	return &Conn{config: p, timedConn: timedConn{NetConn: nc}, ctx: ctx, opened: now, ready: now}
}

// serve serves the connection from its first byte to its end.
func (c *Conn) serve() {
	defer c.close()
	if !c.handshakeTLS() || !c.selectProtocol() {
		return
	}
	for first := true; ; first = false {
		x := c.readRequest(first)
		if x == nil || !c.conn.RunExchange(x) || !c.becomeIdle() {
			return
		}
	}
}

// close ends the connection after a return, a handler's panic, or runtime.Goexit in a handler.
func (c *Conn) close() {
	c.conn.AbortExchange(recover())
	if !c.state.is(http.StateHijacked) {
		c.conn.Linger()
		if tc, ok := c.NetConn.(*tls.Conn); ok {
			c.prepareClose(tc)
		}
		c.NetConn.Close()
		c.state.set(http.StateClosed)
		c.CallStateHook(http.StateClosed)
		c.config.Untrack(c)
	}
}

// prepareClose makes Close of a TLS connection quick and without loss.
func (c *Conn) prepareClose(tc *tls.Conn) {
	if c.conn.WriteErr != nil {
		// else Close waits up to five seconds to send an alert that the client does not read
		tc.NetConn().Close()
		return
	}
	// A client that sends no more sends an alert. Left unread, it would make Close reset the
	// connection, and the client would lose what it has not received yet. net/http has read it:
	// while a handler runs it always reads.
	control(tc, poll.Discard)
}

// control calls f with the descriptor of a socket of package net, which may be beneath TLS.
func control(nc net.Conn, f func(fd int)) {
	if tc, ok := nc.(*tls.Conn); ok {
		nc = tc.NetConn()
	}
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { f(int(fd)) }) // it fails after Close
		}
	}
}

// The methods of an exchange.Connection; those of timedConn send.

func (c *Conn) Context() context.Context           { return c.ctx }
func (c *Conn) Opened() time.Time                  { return c.opened }
func (c *Conn) Number(counter *atomic.Int64) int64 { return c.number.Of(counter) }
func (c *Conn) Read(p []byte) (int, error)         { return c.NetConn.Read(p) }
func (c *Conn) LocalAddr() net.Addr                { return c.NetConn.LocalAddr() }
func (c *Conn) Logf(format string, args ...any)    { c.config.Exchanges.Server.Logf(format, args...) }
func (c *Conn) MayBlock()                          {} // the connection has a goroutine of its own

func (c *Conn) CountRequest() int {
	c.requests++
	return c.requests
}

func (c *Conn) CloseWrite() error {
	if half, ok := c.NetConn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (c *Conn) Hijack() (net.Conn, error) {
	if err := c.NetConn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	c.state.set(http.StateHijacked)
	c.config.Untrack(c)
	c.CallStateHook(http.StateHijacked)
	c.conn.ReleaseHijacked() // not before the hook: if that panics, the response is still c's
	return c.NetConn, nil
}

// ClaimForClosing claims a connection that waits for a request. It reports whether it did.
func (c *Conn) ClaimForClosing() bool {
	if s := c.session.Load(); s != nil { // the client must learn of it first
		s.Shutdown()
		s.Flush()
		return false
	}
	// If the goroutine is about to read a request, it stays. If a hook waits for Shutdown meanwhile,
	// the request is lost, as with net/http.
	if c.state.is(http.StateIdle) && !c.isQuiet() && !c.inHook.Load() {
		return false
	}
	if c.state.move(http.StateIdle, http.StateClosed) {
		return true
	}
	return time.Since(c.opened) > exchange.NewGrace && c.state.move(http.StateNew, http.StateClosed)
}

// HoldsUpShutdown reports whether Shutdown waits for the connection. It does not if the connection
// is closed and the hook, which may wait for Shutdown, has not returned.
func (c *Conn) HoldsUpShutdown() bool { return !c.state.is(http.StateClosed) || !c.inHook.Load() }

// ClaimNew claims a new connection for a use other than Serve, or reports false if it was closed.
func (c *Conn) ClaimNew() bool { return c.state.move(http.StateNew, http.StateActive) }

// isQuiet reports whether nothing has arrived that was not read. If it cannot tell, it returns
// true.
func (c *Conn) isQuiet() bool {
	quiet := true
	control(c.NetConn, func(fd int) { quiet = poll.Quiet(fd) })
	return quiet
}

// becomeActive is called when the first bytes of a request have arrived. It reports false if the
// connection is being closed.
func (c *Conn) becomeActive() bool {
	isClaimed := c.state.move(http.StateIdle, http.StateActive) || c.ClaimNew()
	if isClaimed {
		c.CallStateHook(http.StateActive)
	}
	return isClaimed
}

// becomeIdle is called when a response is complete. It reports false if connections are not kept.
func (c *Conn) becomeIdle() bool {
	c.state.set(http.StateIdle)
	c.CallStateHook(http.StateIdle)
	return c.config.Exchanges.Server.KeepsConnections()
}

// CallStateHook calls the ConnState hook, if there is one.
func (c *Conn) CallStateHook(s http.ConnState) {
	if hook := c.config.Settings.ConnState; hook != nil {
		c.inHook.Store(true)
		hook(c.NetConn, s)
		c.inHook.Store(false)
	}
}

// readRequest waits for a request and reads its head. It responds to a malformed head itself. It
// returns nil if the connection is over.
func (c *Conn) readRequest(first bool) *exchange.Exchange {
	for {
		if len(c.conn.Input()) == 0 {
			c.conn.Trim()
			if !c.awaitInput(first) {
				return nil
			}
		}
		if !c.becomeActive() {
			return nil
		}
		if x, ok := c.receiveHead(first); x != nil || !ok {
			return x
		}
		if !c.becomeIdle() { // the input was no request, but about the connection
			return nil
		}
	}
}

// receiveHead reads until a head is complete, or until nothing that has arrived is part of a head.
// ok is false if the connection is over.
func (c *Conn) receiveHead(first bool) (x *exchange.Exchange, ok bool) {
	if c.config.Exchanges.ReadTimeout > 0 {
		c.conn.RequestStart = c.timeoutStart(first)
	}
	if x, ok := c.parseHead(); x != nil || !ok || !c.conn.HasBegun() {
		return x, ok
	}
	// a head that arrives whole needs neither deadline nor count
	_ = c.SetReadDeadline(c.timeoutStart(first).Add(c.config.Exchanges.HeadTimeout))
	partialHeads := &c.config.Exchanges.Server.PartialHeads
	partialHeads.Add(1)
	defer partialHeads.Add(-1)
	for {
		if err := c.conn.Fill(); err != nil {
			c.conn.HeadFailed(err)
			return nil, false
		}
		if x, ok := c.parseHead(); x != nil || !ok || !c.conn.HasBegun() {
			return x, ok
		}
	}
}

// parseHead parses what has arrived. It sends replies to what preceded the request, whose handler
// may block.
func (c *Conn) parseHead() (x *exchange.Exchange, ok bool) {
	x, ok = c.conn.Codec.Next(c.conn)
	if ok && len(c.conn.Out) > 0 && c.conn.Flush() != nil {
		return nil, false
	}
	return x, ok
}

// timeoutStart returns when the timeout for the next input starts.
func (c *Conn) timeoutStart(first bool) time.Time {
	if first {
		return c.ready
	}
	return time.Now()
}

// awaitInput waits for the first bytes of a request. For a connection's first request the head's
// timeout applies, for later ones the idle timeout.
func (c *Conn) awaitInput(first bool) bool {
	timeout := c.config.Exchanges.IdleTimeout
	if first {
		timeout = c.config.Exchanges.HeadTimeout
	}
	var deadline time.Time
	if timeout > 0 {
		deadline = c.timeoutStart(first).Add(timeout)
	}
	_ = c.extendReadDeadline(deadline, timeout/8) // may keep an earlier deadline, which is corrected if it expires
	for {
		err := c.conn.Fill()
		if err == nil {
			return true
		}
		if !exchange.IsTimeout(err) || deadline.IsZero() || !time.Now().Before(deadline) {
			return false
		}
		_ = c.SetReadDeadline(deadline)
	}
}

// A departureWatch reads a connection while its handler runs, to detect that the client has closed
// it. Any bytes that it receives are the start of the next request and stay in the input buffer. It
// starts only when the handler uses its context, and never while the body can still be read.
type departureWatch struct {
	stopped  chan struct{} // closed when the goroutine no longer uses the buffer
	received int           // bytes; valid once stopped is closed
}

func (c *Conn) WatchDeparture(x *exchange.Exchange) {
	w := &departureWatch{stopped: make(chan struct{})}
	c.watch = w
	c.ignoreReadDeadlines(true)
	room, nc := c.conn.Room(), c.NetConn
	go func() {
		defer close(w.stopped)
		for again := true; again; again = x.Extras != nil && w.received < len(room) {
			n, err := nc.Read(room[w.received:])
			w.received += n
			x.Watched(room[:w.received], err != nil && !exchange.IsTimeout(err))
			if err != nil {
				return
			}
		}
	}()
}

// StopWatch implements exchange.Connection. It keeps what the watch received. No other watch can
// start when it is called. The error that a net.Conn returns for a deadline in the past does not
// matter: no context is left that it could cancel.
func (c *Conn) StopWatch() {
	w := c.watch
	if w == nil {
		return
	}
	c.watch = nil
	_ = c.NetConn.SetReadDeadline(exchange.PastTime())
	<-w.stopped
	c.conn.Received(w.received)
	c.ignoreReadDeadlines(false)
}

// A worker whose connection has ended serves another. For connections of one request this halves
// the cost of a connection.

// maxStarting is how many connections may wait for their workers to start if there are several
// processors. If the one that accepts waited for each, they would take turns: 16 instead of one
// save a third of the time of connections that arrive faster than they are served.
const maxStarting = 16

// Start prepares p for its first connection.
func (p *Config) Start() {
	p.conns = exchange.NewConns(p.Exchanges, inSize, false)
	p.starting = make(chan struct{}, maxStarting)
	if runtime.GOMAXPROCS(0) == 1 {
		p.starting = make(chan struct{})
	}
	p.workers = reuse.NewWorkers(func(_ *struct{}, c *Conn) time.Time {
		<-p.starting
		x, remote := p.conns.Get(), ""
		if a := c.NetConn.RemoteAddr(); a != nil {
			remote = a.String()
		}
		c.conn = x
		x.Attach(c, remote)
		c.serve()
		c.conn = nil // a Request that a program keeps refers to c
		p.conns.Put(x)
		return time.Now()
	})
	p.streams = reuse.NewWorkers(func(_ *struct{}, st *h2.Stream) time.Time {
		st.Run(nil, 0)
		st.Settle()
		return time.Now()
	})
}

// Serve makes a worker serve c. It blocks while more than maxStarting connections wait for their
// workers to start, or more than one with a single processor. If it went on accepting, a burst of
// clients would need a worker for each, although few suffice when each is soon free again.
func (c *Conn) Serve() {
	c.config.workers.Run(c)
	c.config.starting <- struct{}{}
}

// Stop ends the free workers now, and the others when their connections have ended.
func (p *Config) Stop() {
	p.workers.Stop()
	p.streams.Stop()
}

// connState is the state of a Conn: an http.ConnState.
//
//	new ──request──▶ active ──response──▶ idle ──request──▶ active
//	active ──Hijack──▶ hijacked
//	new, active, idle ──▶ closed
//
// Shutdown closes a connection that is idle, or that is new for longer than NewGrace. The serving
// goroutine makes it active when a request arrives. Both claim it by a compare-and-swap of the
// state, so that no request begins on a connection that is being closed.
type connState struct{ value atomic.Uint32 }

func (s *connState) set(state http.ConnState) { s.value.Store(uint32(state)) }

func (s *connState) is(state http.ConnState) bool { return s.value.Load() == uint32(state) }

// move changes the state if it is from.
func (s *connState) move(from, to http.ConnState) bool {
	return s.value.CompareAndSwap(uint32(from), uint32(to))
}
