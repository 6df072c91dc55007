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

	// word says who leads: sequence<<1 | serving. The leader stores a new odd word,
	// its token, when it begins to serve a sock, and makes it even when it is done.
	// Whoever finds the same token twice may exchange it for one of a far higher
	// sequence. That makes another runner the leader: the old one learns so when it
	// fails to make its token even. One store and one exchange for each sock served
	// is all that this costs.
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

// promoted is the word that takes the lead from the holder of a token.
func promoted(token uint64) uint64 { return (token>>1 + 1<<32) << 1 }

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
	s.group.watcher.wake()
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
	token := r.token
	if token != 0 && s.word.CompareAndSwap(token, promoted(token)) {
		s.promote()
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
