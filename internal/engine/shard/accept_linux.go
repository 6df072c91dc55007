package shard

import (
	"context"
	"errors"
	"math"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/poll"
)

const (
	// quietInterval is how long no connection arrives before package net accepts again. It is also
	// how close together two connections arrive before shards accept.
	quietInterval = 50 * time.Millisecond

	// longestShare is how long shards accept before package net accepts twice, so that it notices
	// a deadline of the listener even if connections arrive all the time.
	longestShare = time.Second

	// turnAccepts is how many connections a shard accepts, at least, before the next one does. It
	// is also the maximum that a loop accepts before it looks at its other connections.
	turnAccepts = 8
)

// acceptor accepts the connections of one listener for the shards. Its states:
//
//	package net accepts ──two connections within quietInterval──▶ shards accept
//	shards accept ──quietInterval without a connection, an error, Close──▶ package net accepts
//	shards accept ──longestShare──▶ package net accepts
//
// Package net alone notices deadlines of the listener, and that its owner has closed it. But each
// connection costs it a dozen system calls and the wake-up of a goroutine. So it accepts while few
// connections arrive, and reports every error.
//
// While many arrive, the loop of one shard, the holder, reports the listening socket. Its leader
// accepts and keeps the connections. After turnAccepts of them the next shard is the holder, so
// that all receive equally many. The descriptor is package net's own: the kernel stops accepting at
// once when its owner closes it.
type acceptor struct {
	group  *Group
	config *Config
	closed <-chan struct{} // closed when the server closes the listener
	raw    syscall.RawConn // of the listening socket
	total  atomic.Uint64   // connections accepted by shards

	// Owned by Serve's goroutine.
	lastAccept time.Time // when package net accepted
	failed     error     // an error after accepted connections; the next accept returns it

	mu         sync.Mutex // held while shards accept; guards the rest
	isBlocking bool       // the listening socket would block a loop
	ended      chan error // receives the reason, or nil, when a shard stops accepting
	relay      int        // by which loops report the listening socket, as ^relay; -1 while none does
	holder     int        // index of a shard
	turn       int        // connections accepted by the holder
	burst      int        // connections to accept at once

	// The options that package net sets on each connection, and that the listening socket has so
	// that connections inherit them.
	options    poll.AcceptedOptions
	hasOptions bool // the listening socket has them, or is a unix socket, which needs none
	unchecked  int  // how many of the next connections may not have inherited them

	// The next connection of a burst.
	acceptNext func(uintptr)
	n          int // how many have been accepted
	fd         int
	peer       poll.Peer
	err        error
}

// Supports reports whether shards can accept a listener's connections: those of package net's
// sockets.
func Supports(l net.Listener) bool {
	switch l.(type) {
	case *net.TCPListener, *net.UnixListener:
		return true
	}
	return false
}

// Accept accepts connections of the settings' listener for the shards, which support it, and serves
// them. The result accepts one connection. closed is closed when the server closes the listener.
// Accept returns nil if the listener was closed before.
func (g *Group) Accept(p *Config, closed <-chan struct{}) func() error {
	g.prepare(p)
	a := &acceptor{group: g, config: p, closed: closed, relay: -1}
	_, a.hasOptions = p.Listener.(*net.UnixListener)
	var err error
	if a.raw, err = p.Listener.(syscall.Conn).SyscallConn(); err == nil {
		err = a.raw.Control(func(fd uintptr) { p.lingers = poll.Lingers(int(fd)) })
	}
	if err != nil {
		return nil // the goroutine path reports the same error
	}
	// Made once, because a closure for each connection would be garbage. It takes no lock: Close of
	// the listener waits for it, and its caller may hold the server's.
	a.acceptNext = func(fd uintptr) {
		if a.n == 0 {
			a.isBlocking = !poll.IsNonblocking(int(fd))
		}
		if !a.isBlocking {
			a.fd, a.peer, a.err = poll.Accept(int(fd))
		}
	}
	return a.accept
}

// accept accepts a connection by package net. If connections arrive fast it then lets shards
// accept, until none arrives any more.
func (a *acceptor) accept() error {
	if err := a.failed; err != nil {
		a.failed = nil
		return err
	}
	nc, err := a.config.Listener.Accept()
	if err != nil {
		a.group.MakeRoom(err)
		return err
	}
	now := time.Now()
	arriveFast := now.Sub(a.lastAccept) < quietInterval
	a.lastAccept = now
	if !a.hasOptions {
		a.copyOptions(nc)
	}
	isAdopted, failed := a.group.adopt(a.config.origin, nc)
	if !isAdopted {
		_ = nc.Close()
	}
	a.failed = acceptError(a.config.Listener, failed)
	if a.failed == nil && a.hasOptions && arriveFast {
		defer a.reclaim()
		if a.share() {
			a.failed = a.watch()
		}
	}
	return nil
}

// copyOptions sets the options that package net has set on its first connection on the listening
// socket. Connections inherit them when their handshake ends, unless they are of multipath TCP.
// Those that already wait lack them, and one more for each CPU, which may be adding it to the
// queue. The next one shows whether connections of this system inherit them at all.
func (a *acceptor) copyOptions(first net.Conn) {
	var failed error
	conn, err := first.(syscall.Conn).SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) { a.options, failed = poll.ReadAcceptedOptions(int(fd)) })
	}
	if err = errors.Join(err, failed); err != nil {
		return // the connection has ended; the next one may succeed
	}
	queued, isMultipath := 0, false
	err = a.raw.Control(func(fd uintptr) {
		isMultipath = poll.IsMultipath(int(fd))
		if failed = a.options.Set(int(fd)); failed == nil {
			queued, failed = poll.QueuedConnections(int(fd))
		}
	})
	a.hasOptions, a.unchecked = true, queued+runtime.NumCPU()+1
	if isMultipath || errors.Join(err, failed) != nil {
		a.unchecked = math.MaxInt
	}
}

// share lets shards accept. It reports false if they cannot, because the listener was closed or
// descriptors have run out.
func (a *acceptor) share() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended, a.burst = make(chan error, 1), 1
	if a.isBlocking {
		return false
	}
	var failed error
	err := a.raw.Control(func(fd uintptr) { a.relay, failed = poll.NewRelay(int(fd)) })
	if err != nil || failed != nil {
		return false
	}
	a.group.acceptors.Store(a.relay, a)
	return a.addRelay(a.holder)
}

// watch waits until shards should no longer accept. It returns the error of a shard. Accept reports
// all other errors, among them that the listener was closed.
func (a *acceptor) watch() error {
	ticker := time.NewTicker(quietInterval)
	defer ticker.Stop()
	began := time.Now()
	for before := a.total.Load(); ; {
		select {
		case <-a.closed:
			return nil
		case err := <-a.ended:
			a.group.MakeRoom(err)
			return err
		case <-ticker.C:
			now := a.total.Load()
			if now == before || time.Since(began) > longestShare {
				return nil
			}
			before = now
		}
	}
}

// reclaim ends what share began. When it returns, no shard accepts.
func (a *acceptor) reclaim() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closeRelay()
}

// finish returns the listener to package net. Its caller holds mu.
func (a *acceptor) finish(err error) {
	a.closeRelay()
	a.ended <- err
}

// closeRelay ends the reports of the listening socket. Its caller holds mu.
func (a *acceptor) closeRelay() {
	if a.relay >= 0 {
		a.group.acceptors.Delete(a.relay) // before another acceptor's relay can have the descriptor
		_ = poll.Close(a.relay)
		a.relay = -1
	}
}

// acceptError returns the error that package net's Accept reports if its system call fails.
func acceptError(l net.Listener, err error) error {
	if err == nil {
		return nil
	}
	addr := l.Addr()
	return &net.OpError{Op: "accept", Net: addr.Network(), Addr: addr, Err: os.NewSyscallError("accept4", err)}
}

func (a *acceptor) addRelay(shard int) bool {
	return a.group.allShards()[shard].loop.AddRelay(a.relay, ^a.relay) == nil
}

// passTo makes another shard the holder. Its caller holds mu.
func (a *acceptor) passTo(shard int) {
	a.turn = 0
	if shard != a.holder && a.addRelay(shard) {
		_ = a.group.allShards()[a.holder].loop.RemoveRelay(a.relay)
		a.holder = shard
	}
}

// acceptOn accepts a burst of connections on a shard whose loop has reported the listening socket.
// The loop reports it again if that leaves some waiting.
func (a *acceptor) acceptOn(s *shard) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.relay < 0 || s.index != a.holder {
		return // an old event, perhaps of another acceptor
	}
	// The last call of a burst finds the queue empty, unless the limit ends it. A loop that has
	// slept has most likely been woken by a single connection.
	if a.burst = min(2*a.burst, turnAccepts); s.slept {
		a.burst = 1
	}
	for a.n, a.err = 0, nil; a.n < a.burst; a.n++ {
		if a.raw.Control(a.acceptNext) != nil || a.isBlocking {
			a.finish(nil) // the listener was closed, or calls would block
			return
		}
		if a.err != nil {
			break
		}
		a.place(s)
	}
	a.total.Add(uint64(a.n))
	if a.err != nil && a.err != poll.ErrAgain { //nolint:errorlint // a bare errno
		a.finish(acceptError(a.config.Listener, a.err))
	} else if a.turn += a.n; a.turn >= turnAccepts {
		a.passTo((s.index + 1) % a.group.shards.Load().active)
	}
}

// place puts the connection that was accepted on a shard.
func (a *acceptor) place(on *shard) {
	a.completeOptions(a.fd)
	a.group.server.AcceptedConns.Add(1)
	k := newShardConn(on, a.config.origin, a.fd, remoteOf(a.peer))
	switch {
	case !a.group.put(k):
	case on.early.isWorthwhile():
		on.events = append(on.events, poll.Event{ID: a.fd, Tag: k.tag(), Readable: true})
	default:
		k.addOrClose()
	}
}

// completeOptions sets the options of a connection that has not inherited them.
func (a *acceptor) completeOptions(fd int) {
	if a.unchecked == 0 {
		return
	}
	a.unchecked--
	if a.options.WereInherited(fd) {
		return
	}
	if a.unchecked == 0 {
		a.unchecked = math.MaxInt
	}
	_ = a.options.Set(fd) // package net ignores the errors, too
}

// remoteOf returns a peer's address in the form of package net.
func remoteOf(peer poll.Peer) string {
	if !peer.Addr.IsValid() {
		return peer.Name
	}
	if peer.Zone != 0 { // a neighbor by a link-local address
		return netip.AddrPortFrom(peer.Addr.Addr().WithZone(zoneName(int(peer.Zone))), peer.Addr.Port()).String()
	}
	return peer.Addr.String()
}

// Adopt puts a socket of package net on a shard, and closes nc. ctx is the parent of the requests'
// contexts. Adopt reports false, and leaves nc as it is, if nc is another connection or if
// descriptors have run out.
func (g *Group) Adopt(p *Config, nc net.Conn, ctx context.Context) bool {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
	default:
		return false
	}
	g.prepare(p)
	isAdopted, _ := g.adopt(&origin{p, ctx}, nc)
	return isAdopted
}

// prepare completes the settings of a listener before its first connection.
func (g *Group) prepare(p *Config) {
	p.preparing.Do(func() {
		p.origin = &origin{p, p.Exchanges.BaseContext}
		p.conns = exchange.NewConns(p.Exchanges, inSize, true)
		p.lingers = true // each connection may have an option of its own
		if secure := p.Exchanges.TLS; secure != nil {
			p.tls = withoutTurns(secure)
		}
		if p.Plaintext != nil {
			g.prepare(p.Plaintext)
		}
		g.sweepFor(p)
	})
}

// adopt duplicates the descriptor of a connection of package net and closes nc, unless that fails.
// It reports a lack of descriptors as if package net had not been able to accept, even if closing
// an idle connection has freed one.
func (g *Group) adopt(from *origin, nc net.Conn) (isAdopted bool, err error) {
	raw, closed := nc.(syscall.Conn).SyscallConn()
	if closed != nil {
		return false, nil
	}
	fd, remote := -1, ""
	if a := nc.RemoteAddr(); a != nil {
		remote = a.String()
	}
	_ = raw.Control(func(old uintptr) {
		if fd, err = poll.Dup(int(old)); outOfDescriptors(err) {
			g.shed(false)
			fd, _ = poll.Dup(int(old))
		}
	})
	if fd < 0 {
		return false, err
	}
	k := newShardConn(g.chooseShard(), from, fd, remote)
	_ = nc.Close()
	g.server.AcceptedConns.Add(1)
	if g.put(k) {
		k.addOrClose()
	}
	return true, err
}

// put puts a new connection on its shard, whose loop does not report it yet. It reports false if it
// has closed the connection.
func (g *Group) put(k *shardConn) bool {
	p := k.config()
	g.openConns.Add(1)
	// before another goroutine can find it
	timeout := p.Exchanges.HeadTimeout
	if k.state.has(flagAwaitsTLS) {
		timeout = p.Exchanges.HandshakeTimeout
	}
	k.setWaitDeadline(k.opened + instant(timeout))
	// Aborted is read last. Otherwise Close could miss a connection that is put meanwhile. Shutdown
	// waits for a connection that was accepted just before: its request may be on its way.
	if !g.conns.put(int(k.fd), k) || g.server.Aborted.Load() {
		_ = k.Close()
		return false
	}
	return true
}
