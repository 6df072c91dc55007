package shard

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// hookConn is what a connection has if its listener has hooks, or is wrapped. It calls the hooks.
// Unless the connection has TLS, it is also the net.Conn that they receive (hookconn_linux.go).
//
// The hooks of a connection are called one after another. A runner calls them while it serves the
// connection, so that the stall guard replaces a leader whose hook blocks. A goroutine that others
// wait for, such as the sweeper, leaves the call to a new one.
type hookConn struct {
	conn   *shardConn
	public net.Conn        // what hooks receive
	below  *replacedConn   // of a wrapped listener; nil otherwise
	ctx    context.Context // parent of the requests' contexts

	isAnnounced bool // New was reported
	hasInput    bool // something has arrived that was no request
	ending      atomic.Uint32
	hasNext     atomic.Bool              // while the hook runs for StateIdle: another request has been received
	isOverdue   atomic.Bool              // the hook for StateIdle ran when Shutdown last looked
	isClosed    atomic.Bool              // Close was called
	taken       atomic.Pointer[net.Conn] // of a handler that has hijacked the connection

	mu          sync.Mutex
	last        http.ConnState   // the last state
	isReporting bool             // a goroutine calls the ConnState hook
	pending     []http.ConnState // which it reports next
}

// How a hookConn ends. A runner that closes the connection reports its end itself, unless another
// goroutine still uses the descriptor. That one then closes it, and a new goroutine reports.
//
//	open ──closeAndReport──▶ runner closes ──closeFD──▶ descriptor closed; the runner reports
//	open, runner left ──closeFD──▶ a goroutine reports
//	open ──the hook is called for StateIdle──▶ idle ──it returns──▶ open
//	idle ──claimIdle──▶ runner closes
//	open ──Hijack, leaveShard──▶ handed over; nothing is reported
const (
	hookOpen uint32 = iota
	hookIdle
	hookRunnerCloses
	hookRunnerLeft
	hookDescriptorClosed
	hookHandedOver
)

// hasHooks reports whether connections have a hookConn.
func (p *Config) hasHooks() bool { return p.ConnContext != nil || p.ConnState != nil }

// hooks returns the connection's hookConn, or nil if it has none.
func (k *shardConn) hooks() *hookConn { return k.place.Load().hooks }

// newHookConn returns the hookConn of a new connection. Its tls.Conn exists from now on, because
// hooks receive it before the handshake.
func newHookConn(k *shardConn, p *Config) *hookConn {
	h := &hookConn{conn: k, ctx: p.Exchanges.BaseContext}
	h.public = h
	if k.tls != nil {
		h.public = k.tls.start(p)
	}
	return h
}

// announce calls the hooks for a new connection. As with net/http, a panic in one of them ends the
// program.
func (h *hookConn) announce() {
	if hook := h.conn.config().ConnContext; hook != nil {
		h.ctx = hook(h.ctx, h.public)
	}
	h.isAnnounced = true
	h.setState(http.StateNew)
}

// setState reports a state to the ConnState hook, before it returns unless another call is running.
func (h *hookConn) setState(s http.ConnState) {
	if h.conn.config().ConnState == nil {
		return
	}
	h.mu.Lock()
	starts := h.enterState(s)
	h.mu.Unlock()
	if starts {
		h.report(s)
	}
}

// enterState reports whether the caller must call report for a state. Its caller holds mu.
func (h *hookConn) enterState(s http.ConnState) bool {
	if h.last == http.StateClosed || h.last == http.StateHijacked {
		return false
	}
	h.last = s
	if h.isReporting {
		h.pending = append(h.pending, s)
		return false
	}
	h.isReporting = true
	return true
}

// report calls the ConnState hook for a state, and for those that are entered meanwhile.
func (h *hookConn) report(s http.ConnState) {
	returned := false
	defer func() {
		if !returned {
			h.hookFailed()
		}
	}()
	for more := true; more; {
		h.conn.config().ConnState(h.public, s)
		h.mu.Lock()
		if more = len(h.pending) > 0; more {
			s, h.pending = h.pending[0], h.pending[1:]
		} else {
			h.isReporting, h.pending = false, nil
		}
		h.mu.Unlock()
	}
	returned = true
}

// hookFailed is called after the ConnState hook has panicked, or has called runtime.Goexit. Another
// goroutine reports the states that were entered meanwhile: the last may be StateClosed.
func (h *hookConn) hookFailed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isReporting = len(h.pending) > 0; h.isReporting {
		next := h.pending[0]
		h.pending = h.pending[1:]
		go h.reportOrEnd(next)
	}
}

// handOver makes nc the connection of those that have kept h. It belongs to a handler, or to the
// goroutine path, and its end is not reported here.
func (h *hookConn) handOver(nc net.Conn) {
	h.taken.Store(&nc)
	h.ending.Store(hookHandedOver)
}

// descriptorClosed is called by any goroutine that has closed the descriptor.
func (h *hookConn) descriptorClosed() {
	if h.ending.Load() == hookHandedOver || h.ending.CompareAndSwap(hookRunnerCloses, hookDescriptorClosed) {
		return
	}
	go h.end()
}

// end reports that the connection was closed. As in net/http, a client that has sent anything was
// active.
func (h *hookConn) end() {
	if h.below != nil {
		_ = h.below.wrapper.Close()
	}
	if !h.isAnnounced {
		return
	}
	h.mu.Lock()
	isNew := h.last == http.StateNew
	h.mu.Unlock()
	if h.hasInput && isNew {
		h.setState(http.StateActive)
	}
	h.setState(http.StateClosed)
}

// closeAndReport closes a connection that the caller, a runner, serves.
func (k *shardConn) closeAndReport() {
	h := k.hooks()
	if h == nil {
		_ = k.Close()
		return
	}
	if !h.ending.CompareAndSwap(hookOpen, hookRunnerCloses) {
		h.ending.CompareAndSwap(hookIdle, hookRunnerCloses) // the hook has panicked
	}
	_ = k.Close()
	if !h.ending.CompareAndSwap(hookRunnerCloses, hookRunnerLeft) &&
		h.ending.CompareAndSwap(hookDescriptorClosed, hookRunnerLeft) {
		h.end()
	}
}

// closeConn closes the connection to which the runner's conn is attached.
func (r *runner) closeConn(k *shardConn) {
	if h := k.hooks(); h != nil && r.conn.End > 0 {
		h.hasInput = true
	}
	if r.conn.Lingers {
		g := k.group()
		g.lingering.Store(k, g.now())
		r.conn.Linger()
		g.lingering.Delete(k)
	}
	r.detach()
	k.closeAndReport()
}

// announces calls the hooks for a connection if it is new. It reports whether it was.
func (r *runner) announces(k *shardConn) bool {
	h := k.hooks()
	if h == nil || h.isAnnounced {
		return false
	}
	announced := false
	defer func() {
		if !announced { // runtime.Goexit
			_ = k.Close()
		}
	}()
	h.announce()
	announced = true
	return true
}

// announceAndPut calls the hooks for a connection, if it has any, and puts it on its shard.
func (g *Group) announceAndPut(k *shardConn) {
	if h := k.hooks(); h != nil {
		announced := false
		defer func() {
			if !announced && g.put(k) { // runtime.Goexit; put counts what Close uncounts
				_ = k.Close()
			}
		}()
		h.announce()
		announced = true
	}
	if g.put(k) {
		k.addOrClose()
	}
}

// changeSession reports a state of an HTTP/2 connection, if another one was the last. Its caller
// serves the connection.
func (h *hookConn) changeSession(from, to http.ConnState) {
	h.mu.Lock()
	starts := h.last == from && h.enterState(to)
	h.mu.Unlock()
	if starts {
		h.reportOnTurn(to)
	}
}

// reportOnTurn is reportOrEnd for a goroutine that serves the session. If the hook ends that
// goroutine, nobody serves the connection any more.
func (h *hookConn) reportOnTurn(s http.ConnState) {
	returned := false
	defer func() {
		if !returned { // runtime.Goexit
			_ = h.conn.Close()
		}
	}()
	h.reportOrEnd(s)
	returned = true
}

// reportOrEnd calls report, which must not panic in the goroutine of a session: then the connection
// ends.
func (h *hookConn) reportOrEnd(s http.ConnState) {
	returned := false
	defer func() {
		if err := recover(); err != nil {
			h.conn.group().server.LogPanic("serving", h.conn.remote, err)
		}
		if !returned { // or runtime.Goexit
			h.conn.shutdown()
		}
	}()
	h.report(s)
	returned = true
}

// reportIdle sends the responses of the runner's conn and reports that the connection is idle. It
// reports false if the connection must be closed. As in net/http, the hook may rely on the response
// having been sent, and close the connection.
func (r *runner) reportIdle(k *shardConn) bool {
	c, h := r.conn, k.hooks()
	if len(c.Out) > 0 && c.Flush() != nil {
		return false
	}
	if hasNext := c.Next < c.End; hasNext != h.hasNext.Load() {
		h.hasNext.Store(hasNext)
	}
	if h.isOverdue.Load() {
		h.isOverdue.Store(false)
	}
	h.ending.CompareAndSwap(hookOpen, hookIdle)
	h.setState(http.StateIdle)
	return h.ending.CompareAndSwap(hookIdle, hookOpen)
}

// claimIdle claims the connection for Shutdown while the hook runs for StateIdle, because the hook
// may wait for Shutdown. If another request has arrived, claimIdle waits: the hook most likely
// returns, and the request is served. If the hook still runs when Shutdown looks again, the request
// is lost, as with net/http.
func (h *hookConn) claimIdle() bool {
	if h == nil || h.ending.Load() != hookIdle {
		return false
	}
	hasNext := h.hasNext.Load() || !h.conn.isQuiet()
	if hasNext && h.isOverdue.CompareAndSwap(false, true) {
		return false
	}
	return h.ending.CompareAndSwap(hookIdle, hookRunnerCloses)
}
