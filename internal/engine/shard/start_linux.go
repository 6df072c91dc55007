package shard

import (
	"runtime"
	"slices"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/reuse"
	"github.com/tarehq/tare/internal/engine/sched"
	"github.com/tarehq/tare/internal/poll"
)

// NewGroup starts the shards of a server. unused is called whenever the last connection has ended.
func NewGroup(server *exchange.ServerState, unused func()) (*Group, error) {
	g := &Group{server: server, unused: unused, epoch: time.Now().Add(-1), scheduler: sched.New(),
		stopped: make(chan struct{})}
	g.sweeper = time.AfterFunc(time.Hour, g.sweep)
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

func newShard(g *Group, index int) (*shard, error) {
	loop, err := poll.NewLoop()
	if err != nil {
		return nil, err
	}
	s := &shard{group: g, index: index, loop: loop}
	s.lead = g.scheduler.NewLead(s.promote)
	s.runners = reuse.NewWorkers(s.work)
	return s, nil
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
	every := int64(max(minSweepInterval, shortest/sweepFraction))
	for old := g.sweepEvery.Load(); old == 0 || every < old; old = g.sweepEvery.Load() {
		if g.sweepEvery.CompareAndSwap(old, every) {
			g.sweeper.Reset(time.Duration(every))
		}
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
	g.sweeps.Store(false)
	g.sweepLater()
}

// sweepLater sets the timer of the next sweep, unless it is set or there are no connections. put
// calls it after the first one was counted, and sweep after it has cleared the mark: one of the two
// sees the other.
func (g *Group) sweepLater() {
	every := time.Duration(g.sweepEvery.Load())
	if every > 0 && g.openConns.Load() > 0 && g.sweeps.CompareAndSwap(false, true) {
		g.sweeper.Reset(every)
	}
}
