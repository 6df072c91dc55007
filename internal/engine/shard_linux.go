package engine

import (
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/poll"
)

const (
	// yieldAfter is for how long a loop that always has work keeps its processor
	// before it lets other goroutines run, and their sockets be looked at.
	yieldAfter = 500 * time.Microsecond

	// handOverBatch is how many requests a loop hands over before it lets them begin.
	handOverBatch = 16
)

// shard is one loop and the runners that serve its sockets.
type shard struct {
	group *group
	loop  *poll.Loop

	// word names the leader and what it does; see type word. One store and one exchange
	// for each sock served, and one more exchange for each handler, is all that it costs.
	_    [64]byte
	word atomic.Uint64
	_    [56]byte

	// The leader's.
	events  []poll.Event
	at      int       // next of events
	heard   time.Time // when they were reported
	yielded time.Time

	sealed atomic.Pointer[conn] // whose answers to send should the leader be replaced

	idle idle[runner]
}

func newShard(g *group) (*shard, error) {
	loop, err := poll.NewLoop()
	if err != nil {
		return nil, err
	}
	return &shard{group: g, loop: loop}, nil
}

// A shard's word is sequence | slot | serving. While the leader serves a sock, the word is
// odd and is the leader's token. The leader stores a new token when it begins to serve a sock,
// exchanges it for one that names the handler's slot in the predictor when it begins to run a
// handler, and makes it even when it is done with the sock.
//
//	even ──serve──▶ odd, no slot ──run a handler──▶ odd, slot ──next handler──▶ odd, slot
//	  ▲                  │                              │
//	  └──────done────────┴──────────────────────────────┘   (or: the lead is taken, sequence + 1)
//
// The watcher takes the lead away if it finds the same token twice: it exchanges the token for an
// even word of the next sequence, and starts another runner as the leader. The old leader notices
// when its next exchange fails. Sequences only grow, so that no token is used twice.
const (
	servingBit    = 1
	slotShift     = 1
	slotBits      = 13 // slots + 1 values; 0 is no slot
	sequenceShift = slotShift + slotBits
)

// promoted is the word that takes the lead from the holder of a token.
func promoted(token uint64) uint64 { return (token>>sequenceShift + 1) << sequenceShift }

// slotIn returns the slot of the handler that the holder of a token runs, or noSlot.
func slotIn(token uint64) slotID { return slotID(token >> slotShift & (1<<slotBits - 1)) }

// takeLead takes the lead from the holder of a token and reports whether that was still the
// leader. The handler that it runs is charged now and not when it returns: it may hang, and every
// further request of its route would hold up a loop in the meantime.
func (s *shard) takeLead(token uint64) bool {
	if !s.word.CompareAndSwap(token, promoted(token)) {
		return false
	}
	if id := slotIn(token); id != noSlot {
		s.group.predictor.at(id).stalled()
	}
	s.promote()
	return true
}

// promote makes another runner the leader. Its caller has exchanged the word.
func (s *shard) promote() {
	if c := s.sealed.Load(); c != nil {
		c.seal.send()
	}
	r, fresh := s.idleRunner()
	r.start(job{}, fresh)
}

// seal keeps c's complete answers for whoever may replace the leader.
func (s *shard) seal(c *conn, k *sock) {
	c.seal.close(c.out, k)
	s.sealed.Store(c)
}

// listen waits for events. It reports false when the shard was stopped.
func (s *shard) listen() bool {
	if s.heard = time.Now(); s.heard.Sub(s.yielded) > yieldAfter {
		s.loop.Yield()
		s.heard = time.Now()
		s.yielded = s.heard
	}
	events, waited, err := s.loop.Wait()
	if err != nil {
		return false
	}
	if waited {
		s.heard = time.Now()
		s.yielded = s.heard
	}
	s.events, s.at = events, 0
	return true
}

func (s *shard) idleRunner() (r *runner, fresh bool) {
	if r := s.idle.take(); r != nil {
		return r, false
	}
	return newRunner(s), true
}

// replace is called when a runner's goroutine ends against its will: while it led,
// another one leads.
func (s *shard) replace(r *runner) {
	if r.token != 0 {
		s.takeLead(r.token)
	}
}

// resign has another runner lead. Its caller leads, and serves nothing.
func (s *shard) resign() {
	s.word.Store(promoted(s.word.Load()))
	s.promote()
}

// stop ends the leader and the idle runners.
func (s *shard) stop() {
	for _, r := range s.idle.stop() {
		close(r.work)
	}
	_ = s.loop.Close()
}
