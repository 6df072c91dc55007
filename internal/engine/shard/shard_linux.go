package shard

import (
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/h2"
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
	events    []poll.Event
	nextEvent int  // index of the next event
	slept     bool // the loop has waited for events
	lastYield instant
	early     earlyReads
	outbox    outbox

	turns     atomic.Uint32                 // how often events were reported; read by tests
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

// runner is a goroutine that serves connections of a shard. One runner of each shard leads: it waits
// for the shard's loop and serves the connections that are ready, their handlers included. The
// others run handlers that were expected to be slow, or lost the lead because theirs was slow. Then
// they wait for work (package reuse).
type runner struct {
	shard     *shard
	leader    sched.Leader
	turnCount int // requests of the current connection served in a row
	// while it leads: events that the loop has reported and that it has not looked at
	eventsLeft int

	delays bool // responses may wait in the outbox

	handOffs   int     // hand-offs since startHandOffs
	endedAt    instant // when the last handler that was timed ended
	reportedAt instant // when the loop reported what it serves as leader
}

// job is the work of a free runner: to run the handler of a stream, to serve conn, beginning with a
// request, or else to lead.
type job struct {
	conn    *shardConn
	request *exchange.Exchange
	stream  *h2.Stream
	slot    sched.SlotID
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
	waiting [outboxConns]waitingOutput
	count   int // of waiting
	sent    int // how many of them were taken
}

// waitingOutput is the output of a connection that has given its conn back.
type waitingOutput struct {
	conn        *shardConn
	out         []byte
	sendTimeout time.Duration
}

// shardLoad is how busy a shard is. The shard's leader writes it.
type shardLoad struct {
	// the time.Duration of all turns that have ended; during a turn, minus the instant of its
	// beginning, and so negative
	busy   atomic.Int64
	relief atomic.Pointer[shard] // receives connections until the turn ends; set by balance
	// owned by balance: the total when it last compared the shards
	balanced time.Duration
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
	s.runners.Run(job{})
}

// stop ends the leader and the free runners.
func (s *shard) stop() {
	s.runners.Stop()
	_ = s.loop.Close()
}

const (
	// earlyMisses is how many early reads in a row must find nothing before there are no more.
	earlyMisses = 4
	// earlySample is how many connections a shard accepts without an early read before it tries
	// one.
	earlySample = 32
)

// earlyReads predicts whether a request has arrived when its connection is accepted. If so, the
// loop need not report the connection, which saves two system calls if it ends after a response.
// This is so if the server is slower than its clients, or if the kernel waits for the request
// (TCP_DEFER_ACCEPT). If not, the read costs a call, and a runner's turn. A client on the same
// machine that connects without waiting sends its request after the connection was accepted.
type earlyReads struct {
	misses  atomic.Int32 // early reads in a row that have found nothing; not more than earlyMisses
	skipped int          // connections without an early read; owned by the leader
}

// isWorthwhile reports whether a new connection is read before the loop reports it.
func (e *earlyReads) isWorthwhile() bool {
	if e.misses.Load() < earlyMisses {
		return true
	}
	e.skipped++
	return e.skipped%earlySample == 0
}

// noteServed records that an early read has found a request.
func (e *earlyReads) noteServed() {
	if e.misses.Load() > 0 {
		e.misses.Store(0)
	}
}

// noteWaiting records that an early read has found no complete request.
func (e *earlyReads) noteWaiting() {
	if n := e.misses.Load(); n < earlyMisses {
		e.misses.Store(n + 1)
	}
}
