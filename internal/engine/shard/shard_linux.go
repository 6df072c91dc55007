package shard

import (
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/reuse"
	"github.com/tarehq/tare/internal/engine/sched"
	"github.com/tarehq/tare/internal/poll"
)

const (
	// yieldAfter is how long a loop that is always busy keeps its processor. Then it lets other
	// goroutines run, and lets Go's poller check their sockets.
	yieldAfter = 500 * time.Microsecond

	// handOffBatch is how many requests a loop hands off before it lets their runners start.
	handOffBatch = 16
)

// shard is one loop and the runners that serve its connections.
type shard struct {
	group *Group
	index int // in the group
	loop  *poll.Loop
	lead  *sched.Lead

	// Owned by the leader.
	events     []poll.Event
	nextEvent  int       // index of the next event
	slept      bool      // the loop has waited for events
	reportedAt time.Time // when events were reported
	lastYield  time.Time
	early      earlyReads
	outbox     outbox

	turnOf    atomic.Pointer[shardSession]  // whose turn the next leader takes over
	gatedConn atomic.Pointer[exchange.Conn] // whose responses the next leader sends

	runners *reuse.Workers[runner, job]

	load shardLoad
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

// promote makes another runner the leader.
func (s *shard) promote() {
	if c := s.gatedConn.Load(); c != nil {
		c.Gate.Send()
	}
	s.runners.Run(job{turn: s.turnOf.Swap(nil)})
}

// waitEvents waits for events. It reports false if the shard was stopped.
func (s *shard) waitEvents() bool {
	s.reportedAt = time.Now()
	s.load.endTurn(s.group.instant(s.reportedAt))
	if s.reportedAt.Sub(s.lastYield) > yieldAfter {
		s.loop.Yield()
		s.reportedAt = time.Now()
		s.lastYield = s.reportedAt
	}
	events, waited, err := s.loop.Wait()
	if err != nil {
		return false
	}
	if waited {
		s.reportedAt = time.Now()
		s.lastYield = s.reportedAt
	}
	s.events, s.nextEvent, s.slept = events, 0, waited
	s.lead.CountTurn()
	s.load.beginTurn(s.group.instant(s.reportedAt))
	return true
}

// stop ends the leader and the free runners.
func (s *shard) stop() {
	s.runners.Stop()
	_ = s.loop.Close()
}
