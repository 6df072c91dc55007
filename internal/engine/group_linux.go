package engine

import (
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/poll"
)

// group is the shards of a server, one for each P, and the connections on them.
type group struct {
	server      *exchange.ServerState
	unused      func() // called after the last connection has ended
	epoch       time.Time
	conns       connTable
	predictor   predictor
	acceptors   acceptorTable
	guard       stallGuard
	handshakes  handshakes
	ciphertexts sync.Pool // of *ciphertextBuffer
	openConns   atomic.Int64
	nextShard   atomic.Uint32 // counter that selects the shard of package net's next connection
	sweepSoon   chan struct{}
	sweepEvery  atomic.Int64 // a time.Duration; 0 until there is a listener
	noSweep     atomic.Bool  // the sweeper waits for sweepSoon

	shards    atomic.Pointer[[]*shard] // replaced when shards are added; shards are never removed
	active    atomic.Int32             // the first shards, one for each P, receive new connections
	growing   sync.Mutex               // held to add shards and placements, and to stop
	isStopped bool                     // reports that stopped is closed
	stopped   chan struct{}
}

// newGroup starts the shards of a server. unused is called whenever the last connection has ended.
func newGroup(server *exchange.ServerState, unused func()) (*group, error) {
	g := &group{server: server, unused: unused, epoch: time.Now().Add(-1), stopped: make(chan struct{})}
	g.guard.wakeup = make(chan struct{}, 1)
	g.sweepSoon = make(chan struct{}, 1)
	g.shards.Store(new([]*shard))
	if err := g.grow(); err != nil {
		g.stop()
		return nil, err
	}
	go g.guard.run(g)
	go g.sweep()
	return g, nil
}

// allShards returns the current shards.
func (g *group) allShards() []*shard { return *g.shards.Load() }

// grow adds shards if GOMAXPROCS has grown: it follows the limits of a container while the program
// runs. If GOMAXPROCS has shrunk, the last shards receive no new connections.
func (g *group) grow() error {
	want := runtime.GOMAXPROCS(0)
	if int(g.active.Load()) == want {
		return nil
	}
	g.growing.Lock()
	defer g.growing.Unlock()
	if g.isStopped {
		return nil
	}
	shards := slices.Clone(g.allShards())
	for len(shards) < want {
		s, err := newShard(g, len(shards))
		if err != nil {
			return err
		}
		go newRunner(s).run(job{})
		shards = append(shards, s)
		g.shards.Store(new(slices.Clone(shards)))
	}
	g.active.Store(int32(want))
	return nil
}

// nextPlacement returns the placement of the next connection that package net has accepted.
func (g *group) nextPlacement(p *serveConfig) *placement {
	return g.placementAt(p, int(g.nextShard.Add(1)%uint32(g.active.Load())))
}

// placementAt returns a listener's placement on a shard.
func (g *group) placementAt(p *serveConfig, i int) *placement {
	if placements := p.placements.Load(); placements != nil && i < len(*placements) {
		return (*placements)[i]
	}
	g.growing.Lock()
	defer g.growing.Unlock()
	var placements []*placement
	if old := p.placements.Load(); old != nil {
		placements = slices.Clone(*old)
	}
	for _, s := range g.allShards()[len(placements):] {
		placements = append(placements, &placement{p, s})
	}
	p.placements.Store(&placements)
	return placements[i]
}

// socketAcceptor returns a function that accepts a connection of l for the shards. It returns nil
// if l's connections must take the goroutine path: because they are not sockets, or because hooks
// receive the net.Conn of each.
func (s *Server) socketAcceptor(p *serveConfig, l *onceCloseListener) func() error {
	switch l.Listener.(type) {
	case *net.TCPListener, *net.UnixListener:
	default:
		return nil
	}
	if s.settings.ConnContext != nil || s.settings.ConnState != nil {
		return nil
	}
	g, err := s.ensureGroup()
	if err != nil {
		s.logf("http: no shards: %v; serving with a goroutine for each connection", err)
		return nil
	}
	if p.tls != nil {
		p.tls = withoutTurns(p.tls)
	}
	a := newAcceptor(g, p, l)
	if a == nil {
		return nil
	}
	g.sweepFor(p)
	return a.accept
}

func (g *group) now() instant { return instant(time.Since(g.epoch)) }

func (g *group) instant(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	return max(1, instant(t.Sub(g.epoch))) // a time before the epoch is not 0 either
}

func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// adopt puts a connection that package net has accepted on a shard. It duplicates the descriptor
// and closes package net's. A lack of descriptors is reported even if closing an idle connection
// has ended it, as if package net had not been able to accept.
func (g *group) adopt(p *serveConfig, nc net.Conn) error {
	defer nc.Close()
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil // already closed
	}
	remote := ""
	if a := nc.RemoteAddr(); a != nil {
		remote = a.String()
	}
	fd := -1
	var failed error
	err = raw.Control(func(old uintptr) {
		if fd, failed = poll.Dup(int(old)); outOfDescriptors(failed) {
			g.shedIdle()
			fd, _ = poll.Dup(int(old))
		}
	})
	if err != nil {
		return nil // already closed
	}
	if fd >= 0 {
		if k := g.place(g.nextPlacement(p), fd, remote); k != nil {
			k.addOrClose()
		}
	}
	return acceptError(p.listener, failed)
}

// acceptError returns the error that package net's Accept reports if its system call fails.
func acceptError(l net.Listener, err error) error {
	if err == nil {
		return nil
	}
	addr := l.Addr()
	return &net.OpError{Op: "accept", Net: addr.Network(), Addr: addr, Err: os.NewSyscallError("accept4", err)}
}

// ensureGroup returns the server's shards and starts them if necessary.
func (s *Server) ensureGroup() (*group, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shards != nil {
		return s.shards, nil
	}
	g, err := newGroup(&s.state, s.stopIfUnused)
	if err == nil {
		s.shards = g
	}
	return g, err
}

// place puts a new connection on a shard, whose loop does not report it yet. It returns nil if it
// has closed the connection.
func (g *group) place(h *placement, fd int, remote string) *shardConn {
	k := newShardConn(h, fd, remote)
	g.server.AcceptedConns.Add(1)
	if g.openConns.Add(1) == 1 && g.noSweep.Load() {
		signal(g.sweepSoon)
	}
	// before another goroutine can find it
	timeout := h.config.exchanges.HeadTimeout
	if k.tls != nil {
		timeout = h.config.netConns.HandshakeTimeout
	}
	k.setWaitDeadline(k.opened + instant(timeout))
	// Aborted is read last. Otherwise Close could miss a connection that is put meanwhile. Shutdown
	// waits for a connection that was accepted just before: its request may be on its way.
	if !g.conns.put(fd, k) || g.server.Aborted.Load() {
		_ = k.Close()
		return nil
	}
	return k
}

// connGone is called after a connection's descriptor was closed.
func (g *group) connGone() {
	last := g.openConns.Add(-1) == 0
	if last {
		g.stopIfDone()
	}
	g.server.SignalClosed()
	if last {
		g.unused()
	}
}

// open returns how many connections are open.
func (g *group) open() int64 {
	if g == nil {
		return 0
	}
	return g.openConns.Load()
}

// stopIfDone stops the shards of a server that is closing, once no connection is left on them and
// none can arrive.
func (g *group) stopIfDone() {
	if g == nil {
		return
	}
	if g.server.MayStop() && g.openConns.Load() == 0 {
		g.stop()
	}
}

// stop stops the shards. No connection is left on them.
func (g *group) stop() {
	if g == nil {
		return
	}
	g.growing.Lock()
	defer g.growing.Unlock()
	if g.isStopped {
		return
	}
	g.isStopped = true
	close(g.stopped)
	for _, s := range g.allShards() {
		s.stop()
	}
}

// How late an expired connection may be closed: a fraction of its timeout, and no less than
// minSweepInterval, because each sweep visits all connections.
const (
	sweepFraction    = 8
	minSweepInterval = 10 * time.Millisecond
)

// sweepFor makes sweeps frequent enough for a listener's timeouts.
func (g *group) sweepFor(p *serveConfig) {
	shortest := min(p.exchanges.HeadTimeout, p.netConns.HandshakeTimeout)
	if h := p.netConns.HTTP2; h != nil {
		for _, limit := range []time.Duration{h.SendLimit(), h.SendPingTimeout} {
			if limit > 0 {
				shortest = min(shortest, limit)
			}
		}
	}
	if p.exchanges.IdleTimeout > 0 {
		shortest = min(shortest, p.exchanges.IdleTimeout)
	}
	every := int64(max(minSweepInterval, shortest/sweepFraction))
	for old := g.sweepEvery.Load(); old == 0 || every < old; old = g.sweepEvery.Load() {
		if g.sweepEvery.CompareAndSwap(old, every) {
			signal(g.sweepSoon)
		}
	}
}

// sweep closes the connections that have waited too long. Visiting all of them at intervals costs
// less than a timer for each: nothing for each request, and no memory. While there are no
// connections it sleeps.
func (g *group) sweep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failed := false; ; {
		if err := g.grow(); err != nil && !failed {
			g.server.Logf("http: cannot follow GOMAXPROCS: %v; serving with %d loops", err, len(g.allShards()))
			failed = true
		}
		select {
		case <-g.stopped:
			return
		case <-g.sweepSoon:
		case <-timer.C:
			now := g.now()
			g.conns.each(func(k *shardConn) { k.expire(now) })
		}
		// place adds its connection before it reads noSweep, so that one of the two sees the other.
		g.noSweep.Store(true)
		if every := g.sweepEvery.Load(); every > 0 && g.openConns.Load() > 0 {
			g.noSweep.Store(false)
			timer.Reset(time.Duration(every))
		}
	}
}

// closeIdle closes the connections that wait for a request, new ones only after NewGrace. It
// returns how many connections are left.
func (g *group) closeIdle() int {
	if g == nil {
		return 0
	}
	g.conns.each(func(k *shardConn) {
		switch {
		case k.claimForClosing():
			_ = k.Close()
		case k.awaitsTLS() && time.Duration(g.now()-k.opened) > exchange.NewGrace:
			k.shutdown()
		}
	})
	g.stopIfDone()
	return int(g.openConns.Load())
}

// closeAll closes all connections. Those whose handlers run are closed when the handlers return.
func (g *group) closeAll() {
	if g == nil {
		return
	}
	g.conns.each(func(k *shardConn) {
		if k.state.CompareAndSwap(stateWaiting, stateClosed) {
			_ = k.Close()
			return
		}
		k.shutdown()
	})
	g.stopIfDone()
}

// shedIdle closes the connection that has been quiet longest among a sample, when descriptors have
// run out.
func (g *group) shedIdle() {
	const sample = 128
	var longest *shardConn
	var waited time.Duration
	n := 0
	g.conns.each(func(k *shardConn) {
		if n++; n > sample || k.state.Load() != stateWaiting {
			return
		}
		if h := k.session.Load(); h != nil && !h.session.IsIdle() {
			return
		}
		if w := k.quietFor(); longest == nil || w > waited {
			longest, waited = k, w
		}
	})
	if longest != nil && longest.state.CompareAndSwap(stateWaiting, stateClosed) {
		_ = longest.Close()
	}
}

// connTable finds connections by descriptor. The kernel reuses descriptors, so that a loop may look
// up one that belongs to another connection by now. That connection is then checked needlessly.
type connTable struct {
	pages [tablePages]atomic.Pointer[tablePage]
}

const (
	tablePages = 1 << 12
	pageConns  = 1 << 10
)

type tablePage [pageConns]atomic.Pointer[shardConn]

// put stores k. It reports false if the table has no place for the descriptor.
func (t *connTable) put(fd int, k *shardConn) bool {
	if fd >= tablePages*pageConns {
		return false
	}
	slot := &t.pages[fd/pageConns]
	for slot.Load() == nil {
		slot.CompareAndSwap(nil, new(tablePage))
	}
	slot.Load()[fd%pageConns].Store(k)
	return true
}

func (t *connTable) at(fd int) *shardConn {
	if p := t.pages[fd/pageConns].Load(); p != nil {
		return p[fd%pageConns].Load()
	}
	return nil
}

func (t *connTable) remove(fd int, k *shardConn) {
	if fd >= tablePages*pageConns {
		return // put has refused it
	}
	if p := t.pages[fd/pageConns].Load(); p != nil {
		p[fd%pageConns].CompareAndSwap(k, nil)
	}
}

func (t *connTable) each(f func(*shardConn)) {
	for i := range t.pages {
		p := t.pages[i].Load()
		if p == nil {
			continue
		}
		for j := range p {
			if k := p[j].Load(); k != nil {
				f(k)
			}
		}
	}
}
