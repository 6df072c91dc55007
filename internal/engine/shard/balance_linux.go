package shard

import "time"

// New connections are placed on the shards in turn, and a busy client may by chance have all its
// connections on one shard. That shard's loop then works all the time, while another waits. The
// stall guard compares the loops. If one is overloaded and another is not, the leader of the first
// moves connections to the second, at most every other one of those that have events at once. It
// moves none while only one connection has events: moving that would only move the load.
//
// A request pays a load of a word of its shard for this, and a turn of the loop three stores.
const (
	// balanceInterval is the interval between two comparisons.
	balanceInterval = 10 * time.Millisecond
	// overloaded and available are shares of an interval, in percent. A shard that was busy for
	// longer than the first is relieved by one that was busy for less than the second.
	overloaded = 90
	available  = 60
)

// balance makes the busiest shard move connections to the least busy one, if that is worthwhile.
func (g *Group) balance(now time.Time) {
	elapsed := now.Sub(g.balancedAt)
	if elapsed < balanceInterval {
		return
	}
	g.balancedAt = now
	shards, active := g.allShards(), g.shards.Load().active
	busiest, idlest, most, least := -1, -1, time.Duration(-1), elapsed
	for i, s := range shards {
		total := s.load.total(g.instant(now))
		busy := total - s.load.balanced
		s.load.balanced = total
		if busy > most {
			busiest, most = i, busy
		}
		if busy < least && i < active {
			idlest, least = i, busy
		}
	}
	if elapsed > 10*balanceInterval || idlest < 0 { // the guard has slept: the shares mean nothing
		return
	}
	if most*100 > elapsed*overloaded && least*100 < elapsed*available {
		shards[busiest].load.relief.Store(shards[idlest])
	}
}

// moveTo makes another loop report the connection's events. Its caller serves the connection. An
// event that the old loop has reported meanwhile is not lost: the new loop reports all that is
// there. moveTo reports false if no loop reports the connection any more.
func (k *shardConn) moveTo(to *shard) bool {
	from, fd := k.shard(), int(k.fd)
	if !k.acquire() {
		return true
	}
	defer k.release()
	if from.loop.Remove(fd) != nil {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.home.Store(to)
	if to.loop.Add(fd, fd, k.tag()) == nil {
		if k.session.Load() != nil { // it may wait for room
			_ = to.loop.AddOutput(fd, fd, k.tag())
		}
		return true
	}
	k.home.Store(from)
	k.state.set(flagAdded, false)
	return k.addToLoopLocked() == nil
}
