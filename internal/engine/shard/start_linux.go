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
	g.sweepSoon = make(chan struct{}, 1)
	g.shards.Store(new(shardList))
	if err := g.grow(); err != nil {
		g.Stop()
		return nil, err
	}
	var balancer balancer
	go g.scheduler.Guard(g.stopped, func(now time.Time) { balancer.check(g, now) })
	go g.sweep()
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
	if g.isStopped() {
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
