package shard

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/sched"
)

// Group is the shards of a server, one for each P, and the connections on them.
type Group struct {
	server      *exchange.ServerState
	unused      func() // called after the last connection has ended
	epoch       time.Time
	conns       connTable
	scheduler   *sched.Scheduler
	acceptors   sync.Map // of int: *acceptor; those for which shards accept, by their ids
	handshakes  handshakes
	ciphertexts sync.Pool // of *ciphertextBuffer
	openConns   atomic.Int64
	acceptorIDs atomic.Int32  // the last one
	nextShard   atomic.Uint32 // counter that selects the shard of package net's next connection
	lingering   sync.Map      // of *shardConn: when Linger was called, an instant
	shedding    sync.Mutex
	shedFrom    int // the descriptor at which shedIdle looks first; guarded by shedding
	sweepSoon   chan struct{}
	sweepEvery  atomic.Int64 // a time.Duration; 0 until there is a listener
	noSweep     atomic.Bool  // the sweeper waits for sweepSoon

	shards  atomic.Pointer[shardList]
	growing sync.Mutex // held to add shards and placements, and to stop
	stopped chan struct{}
}

// shardList is replaced when GOMAXPROCS changes. Shards are never removed.
type shardList struct {
	all    []*shard
	active int // the first ones, one for each P, receive new connections
}

// allShards returns the current shards.
func (g *Group) allShards() []*shard { return g.shards.Load().all }

// nextPlacement returns the placement of the next connection that package net has accepted.
func (g *Group) nextPlacement(p *Config) *placement {
	return g.placementAt(p, int(g.nextShard.Add(1)%uint32(g.shards.Load().active)))
}

// placementAt returns a listener's placement on a shard.
func (g *Group) placementAt(p *Config, i int) *placement {
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
		placements = append(placements, &placement{config: p, shard: s})
	}
	p.placements.Store(&placements)
	return placements[i]
}

func (g *Group) now() instant { return instant(time.Since(g.epoch)) }

func (g *Group) instant(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	return max(1, instant(t.Sub(g.epoch))) // a time before the epoch is not 0 either
}

func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// put puts a new connection on its shard, whose loop does not report it yet. It reports false if it
// has closed the connection.
func (g *Group) put(k *shardConn) bool {
	p := k.config()
	g.server.AcceptedConns.Add(1)
	if g.openConns.Add(1) == 1 && g.noSweep.Load() {
		exchange.Signal(g.sweepSoon)
	}
	// before another goroutine can find it
	timeout := p.Exchanges.HeadTimeout
	if k.tls != nil {
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

// connGone is called after a connection's descriptor was closed.
func (g *Group) connGone() {
	last := g.openConns.Add(-1) == 0
	if last {
		g.StopIfDone()
	}
	g.server.SignalClosed()
	if last {
		g.unused()
	}
}

// Open returns how many connections are open.
func (g *Group) Open() int64 {
	if g == nil {
		return 0
	}
	return g.openConns.Load()
}

// StopIfDone stops the shards of a server that is closing, once no connection is left on them and
// none can arrive.
func (g *Group) StopIfDone() {
	if g != nil && g.server.MayStop() && g.openConns.Load() == 0 {
		g.Stop()
	}
}

func (g *Group) isStopped() bool {
	select {
	case <-g.stopped:
		return true
	default:
		return false
	}
}

// Stop stops the shards. No connection is left on them.
func (g *Group) Stop() {
	if g == nil {
		return
	}
	g.growing.Lock()
	defer g.growing.Unlock()
	if g.isStopped() {
		return
	}
	close(g.stopped)
	for _, s := range g.allShards() {
		s.stop()
	}
}

// CloseIdle closes the connections that wait for a request, new ones only after NewGrace. It
// returns how many connections are left.
func (g *Group) CloseIdle() int {
	if g == nil {
		return 0
	}
	g.conns.each(func(k *shardConn) {
		if !k.closeIfIdle() && k.awaitsTLS() && time.Duration(g.now()-k.opened) > exchange.NewGrace {
			k.shutdown()
		}
	})
	g.StopIfDone()
	return int(g.openConns.Load())
}

// CloseAll closes all connections. Those whose handlers run are closed when the handlers return.
func (g *Group) CloseAll() {
	if g == nil {
		return
	}
	g.conns.each((*shardConn).end)
	g.StopIfDone()
}
