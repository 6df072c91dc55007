package shard

import (
	"errors"
	"runtime"
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
	acceptors   sync.Map // of int: *acceptor; those for which shards accept, by their relays
	handshakes  handshakes
	ciphertexts sync.Pool // of *ciphertextBuffer
	openConns   atomic.Int64
	nextShard   atomic.Uint32 // counter that selects the shard of package net's next connection
	shedding    sync.Mutex
	shedFrom    int       // the descriptor at which shed looks first; guarded by shedding
	balancedAt  time.Time // when balance last compared the shards

	shards     atomic.Pointer[shardList]
	growing    sync.Mutex  // held to add shards, and to stop; guards the next three
	sweeper    *time.Timer // calls sweep
	sweepEvery time.Duration
	isStopped  bool
	growFailed sync.Once
	stopped    chan struct{}
}

// shardList is replaced when GOMAXPROCS changes. Shards are never removed.
type shardList struct {
	all    []*shard
	active int // the first ones, one for each P, receive new connections
}

func (g *Group) now() instant { return instant(time.Since(g.epoch)) }

func (g *Group) instant(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	return max(1, instant(t.Sub(g.epoch))) // a time before the epoch is not 0 either
}

// instant is a time in nanoseconds since the group's epoch; 0 for none.
type instant int64

// NewGroup starts the shards of a server. unused is called whenever the last connection has ended.
func NewGroup(server *exchange.ServerState, unused func()) (*Group, error) {
	g := &Group{server: server, unused: unused, epoch: time.Now().Add(-1), scheduler: sched.New(),
		handshakes: handshakes{computing: new(int)}, stopped: make(chan struct{}), sweepEvery: time.Hour}
	g.sweeper = time.AfterFunc(g.sweepEvery, g.sweep)
	g.shards.Store(new(shardList))
	if err := g.grow(); err != nil {
		g.Stop()
		return nil, err
	}
	go g.scheduler.Guard(g.stopped, g.balance)
	return g, nil
}

// grow adds shards if GOMAXPROCS has grown: it follows the limits of a container while the program
// runs. If GOMAXPROCS has shrunk, the last shards soon receive no new connections.
func (g *Group) grow() error {
	want := runtime.GOMAXPROCS(0)
	if g.shards.Load().active == want {
		return nil
	}
	g.growing.Lock()
	defer g.growing.Unlock()
	if g.isStopped {
		return nil
	}
	for list := *g.shards.Load(); ; {
		if len(list.all) >= want {
			list.active = want
			g.shards.Store(&list)
			return nil
		}
		s, err := newShard(g, len(list.all))
		if err != nil {
			return err
		}
		s.runners.Run(job{})
		list.all = append(slices.Clone(list.all), s)
		g.shards.Store(&shardList{list.all, list.active})
	}
}

func (g *Group) allShards() []*shard { return g.shards.Load().all }

// chooseShard returns the shard of the next connection that package net has accepted.
func (g *Group) chooseShard() *shard {
	list := g.shards.Load()
	return list.all[g.nextShard.Add(1)%uint32(list.active)]
}

func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// connGone is called after a connection's descriptor was closed.
func (g *Group) connGone() {
	if g.openConns.Add(-1) == 0 {
		g.unused()
	}
	g.server.SignalClosed()
}

// Open returns how many connections are open.
func (g *Group) Open() int64 {
	if g == nil {
		return 0
	}
	return g.openConns.Load()
}

// Stop stops the shards. No connection is left on them.
func (g *Group) Stop() {
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
	g.sweeper.Stop()
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
		if !k.closeIfIdle() && k.state.has(flagAwaitsTLS) && time.Duration(g.now()-k.opened) > exchange.NewGrace {
			k.shutdown()
		}
	})
	return int(g.openConns.Load())
}

// CloseAll closes all connections. Those whose handlers run are closed when the handlers return.
func (g *Group) CloseAll() {
	if g == nil {
		return
	}
	g.conns.each(func(k *shardConn) {
		if !k.closeWaiting() {
			k.shutdown() // its runner closes it
		}
	})
}

// MakeRoom closes a connection if an error means that descriptors have run out. g may be nil.
func (g *Group) MakeRoom(err error) {
	if g != nil && outOfDescriptors(err) {
		g.shed(true)
	}
}

// shed closes a connection when descriptors have run out: the one that has been quiet longest among
// a sample of those that wait for a request. Each call takes another sample. Without TLS, a request
// that has arrived and waits for a busy shard is not lost. With TLS, unread bytes may be a part of
// a first message, whose rest never comes. If endsLingering is set, a connection of the sample that
// lingers is ended instead, and closed soon.
func (g *Group) shed(endsLingering bool) {
	const sample = 128
	var longest *shardConn
	var waited time.Duration
	n := 0
	g.shedding.Lock()
	defer g.shedding.Unlock()
	for fd, k := range g.conns.from(g.shedFrom) {
		if endsLingering && k.state.has(flagLingers) {
			k.state.set(flagLingers, false) // so that the next call ends another one
			k.shutdown()
			return
		}
		if !k.state.is(stateWaiting) {
			continue
		}
		if h := k.session.Load(); h != nil && !h.session.IsIdle() {
			continue
		}
		overTLS := k.state.has(flagAwaitsTLS) || k.tls != nil
		if w := k.quietFor(); (longest == nil || w > waited) && (overTLS || k.isQuiet()) {
			longest, waited = k, w
		}
		if n++; n == sample {
			g.shedFrom = fd + 1
			break
		}
	}
	if longest != nil {
		longest.closeWaiting()
	}
}

// How late an expired connection may be closed: a fraction of its timeout, and no less than
// minSweepInterval, because each sweep visits all connections.
const (
	sweepFraction    = 8
	minSweepInterval = 10 * time.Millisecond
)

// sweepFor makes sweeps frequent enough for a listener's timeouts.
func (g *Group) sweepFor(p *Config) {
	shortest := min(p.Exchanges.HeadTimeout, p.Exchanges.HandshakeTimeout)
	for _, limit := range []time.Duration{p.HTTP2.SendLimit(p.Exchanges.WriteTimeout), p.HTTP2.SendPingTimeout,
		p.Exchanges.IdleTimeout} {
		if limit > 0 {
			shortest = min(shortest, limit)
		}
	}
	every := max(minSweepInterval, shortest/sweepFraction)
	g.growing.Lock()
	defer g.growing.Unlock()
	if every < g.sweepEvery {
		g.sweepEvery = every
		g.sweeper.Reset(every)
	}
}

// sweep closes the connections that have waited too long. Visiting all of them at intervals costs
// less than a timer for each: nothing for each request, and no memory.
func (g *Group) sweep() {
	if err := g.grow(); err != nil {
		g.growFailed.Do(func() {
			g.server.Logf("http: cannot follow GOMAXPROCS: %v; serving with %d loops", err, len(g.allShards()))
		})
	}
	now := g.now()
	g.conns.each(func(k *shardConn) { k.expire(now) })
	g.growing.Lock()
	defer g.growing.Unlock()
	if !g.isStopped {
		g.sweeper.Reset(g.sweepEvery)
	}
}
