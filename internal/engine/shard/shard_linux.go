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

	turns     atomic.Uint32                 // how often events were reported; read by tests
	turnOf    atomic.Pointer[shardSession]  // whose turn the next leader takes over
	gatedConn atomic.Pointer[exchange.Conn] // whose responses the next leader sends

	runners *reuse.Workers[runner, job]

	load shardLoad
}

const (
	// outboxConns is how many connections' responses wait at most. The first of them waits for as
	// many handlers, each of which is expected to be quick.
	outboxConns = 8
	// outboxMax is how many bytes of a connection may wait.
	outboxMax = 4 << 10
)

// outbox holds the complete responses of connections that the leader has served in this turn. The
// leader sends them one after another, before it waits for events. A client that serves several of
// them, such as a proxy or a load generator, is then woken for the first and finds the others when
// it looks again. Handlers and the kernel's network code do not evict each other from the caches.
// This gains 2 to 6 % of a small request with 64 connections on the loopback.
//
// A response waits only if another connection has an event. Its connection counts as served until
// the response was sent, so that no other goroutine closes it. The outbox belongs to the leader
// while the leader serves nothing. If the lead is taken from a leader in a handler, the new leader
// begins with the outbox.
type outbox struct {
	conns []*shardConn
	sent  int // how many of conns were taken
}

// shardLoad is how busy a shard is. The shard's leader writes it.
type shardLoad struct {
	// the time.Duration of all turns that have ended; during a turn, minus the instant of its
	// beginning, and so negative
	busy   atomic.Int64
	relief atomic.Pointer[shard] // receives connections until the turn ends; set by the balancer
}

// beginTurn is called when the loop has reported events.
func (l *shardLoad) beginTurn(now instant) { l.busy.Store(l.busy.Load() - int64(now)) }

// endTurn is called when all events have been served.
func (l *shardLoad) endTurn(now instant) {
	l.busy.Store(int64(l.total(now)))
	if l.relief.Load() != nil {
		l.relief.Store(nil)
	}
}

// total returns how long the shard has been busy.
func (l *shardLoad) total(now instant) time.Duration {
	busy := l.busy.Load()
	if busy < 0 {
		busy += int64(now)
	}
	return time.Duration(busy)
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
	s.turns.Add(1)
	s.load.beginTurn(s.group.instant(s.reportedAt))
	return true
}

// stop ends the leader and the free runners.
func (s *shard) stop() {
	s.runners.Stop()
	_ = s.loop.Close()
}
