package fleet

import (
	"sync"
	"time"
)

// clock relates an agent's clock to the controller's. Each round trip of a ping shows what the
// agent's clock read at some time between sending and receiving; the middle is the estimate, and
// half of the round trip its greatest error. The shortest of the last round trips counts.
type clock struct {
	mu     sync.Mutex
	number uint64        // of the last ping
	sent   time.Duration // when, on the controller's clock
	trips  []trip        // the last ones, at most keptTrips
	pong   chan struct{} // receives a value for each round trip, if there is room
}

type trip struct {
	duration time.Duration
	offset   time.Duration // the agent's clock minus the controller's
}

// keptTrips is the number of round trips from which the shortest is chosen. There is one a second,
// so clocks that drift apart by 50 µs a second stay within a millisecond.
const keptTrips = 16

// ping returns the number of a new ping. One without a reply is forgotten.
func (c *clock) ping(now time.Duration) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	c.sent = now
	return c.number
}

// receive records the reply to a ping. Replies to forgotten pings are ignored.
func (c *clock) receive(number uint64, agents, now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if number != c.number {
		return
	}
	t := trip{now - c.sent, agents - (c.sent+now)/2}
	if len(c.trips) == keptTrips {
		c.trips = append(c.trips[:0], c.trips[1:]...)
	}
	c.trips = append(c.trips, t)
	select {
	case c.pong <- struct{}{}:
	default:
	}
}

func (c *clock) isKnown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.trips) > 0
}

// estimate returns the agent's clock minus the controller's, and the greatest error.
func (c *clock) estimate() (offset, most time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	best := trip{duration: -1}
	for _, t := range c.trips {
		if best.duration < 0 || t.duration < best.duration {
			best = t
		}
	}
	return best.offset, max(best.duration, 0) / 2
}
