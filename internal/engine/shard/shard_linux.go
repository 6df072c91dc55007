package shard

import (
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/predict"
	"github.com/tarehq/tare/internal/engine/reuse"
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
	turns atomic.Uint32 // how often the loop has reported events

	// word identifies the leader and its work; see below. It costs one store and one
	// compare-and-swap for each connection served, and one more compare-and-swap for each
	// handler.
	_    [64]byte
	word atomic.Uint64
	_    [56]byte

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
	s.runners = reuse.NewWorkers(s.work)
	return s, nil
}

// The states of a shard's word, which is sequence | slot | serving:
//
//	idle (even) ──beginServing──▶ serving (odd, no slot)
//	serving, in a handler ──enterHandler──▶ in a handler (odd, slot)
//	serving, in a handler ──serveAsLeader ends──▶ idle
//	serving, in a handler ──takeLead──▶ idle, of the next sequence and another leader
//	idle ──MaxAge of the leader──▶ idle, of the next sequence and another leader
//
// While the leader serves a connection, the word is odd and is the leader's token. The leader
// stores a new token when it begins to serve a connection. Before each handler it exchanges the
// token for one that contains the handler's slot in the predictor. It makes the word even when it
// is done.
//
// If the stall guard finds the same token twice, it takes the lead: it exchanges the token for an
// even word of the next sequence, and starts another runner as the leader. The old leader notices
// when its next compare-and-swap fails. Sequences only grow, so that no token is used twice.
const (
	servingBit    = 1
	slotShift     = 1
	slotBits      = 13 // predict.Slots + 1 values; 0 is no slot
	sequenceShift = slotShift + slotBits
)

// wordAfter returns the word that takes the lead from the holder of a token.
func wordAfter(token uint64) uint64 { return (token>>sequenceShift + 1) << sequenceShift }

// slotIn returns the slot of the handler that the holder of a token runs, or predict.NoSlot.
func slotIn(token uint64) predict.SlotID {
	return predict.SlotID(token >> slotShift & (1<<slotBits - 1))
}

// beginServing stores the token of a leader that is about to serve a connection, and then wakes the
// stall guard if it sleeps. The guard marks itself as asleep and then reads the words. One of the
// two sees what the other has stored, so that no handler runs on an unguarded loop.
func (r *runner) beginServing() {
	r.sequence++
	r.token = r.sequence<<sequenceShift | servingBit
	r.shard.word.Store(r.token)
	r.shard.group.guard.wake()
}

// enterHandler stores the slot of the handler that is about to run in the shard's word. It reports
// false if the runner does not lead, or no longer leads.
func (r *runner) enterHandler(at predict.SlotID) bool {
	if r.token == 0 {
		return false
	}
	token := (r.sequence+1)<<sequenceShift | uint64(at)<<slotShift | servingBit
	if !r.shard.word.CompareAndSwap(r.token, token) {
		return false
	}
	r.sequence++
	r.token = token
	return true
}

// takeLead takes the lead from the holder of a token. It reports whether the holder was still the
// leader. The handler that it runs is charged now, not when it returns. It may hang, and meanwhile
// further requests of its route would hold up loops.
func (s *shard) takeLead(token uint64) bool {
	if !s.word.CompareAndSwap(token, wordAfter(token)) {
		return false
	}
	if id := slotIn(token); id != predict.NoSlot {
		s.group.predictor.At(id).ChargeStall()
	}
	s.promote()
	return true
}

// promote makes another runner the leader. Its caller has changed the word.
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
