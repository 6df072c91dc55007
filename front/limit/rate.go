package limit

import (
	"fmt"
	"math"
	"time"
)

// Rate counts requests by key, as a leaky bucket does: each adds one, and the zone's rate takes away. It is safe for use by
// several at once. What it remembers is bounded by Config.Bytes; the keys that were not seen for the longest are forgotten
// first.
type Rate struct {
	table[bucket]
	rate int64 // thousandths of a request per second
}

// bucket is what is remembered of a key.
type bucket struct {
	excess int64 // thousandths of a request that are in it
	last   int64 // milliseconds, when it was counted
}

const (
	// Unit is what a request adds. Excesses are in thousandths of a request.
	Unit = 1000
	// maxRate is a billion requests per second, so that no product overflows.
	maxRate = 1e9
	// forgotten is the time after which no bucket is full: nginx's number.
	forgotten = 60_000
)

// NewRate makes a zone for limits of requests.
func NewRate(c Config) (*Rate, error) {
	if !(c.Rate*Unit >= 1) || c.Rate > maxRate {
		return nil, fmt.Errorf("limit_req_zone %q: the rate is %v per second, want at least one in 1000 seconds", c.Name, c.Rate)
	}
	z := &Rate{rate: int64(math.Round(c.Rate * Unit))}
	z.init(c)
	return z, nil
}

// Look returns what the excess is with another request, which it does not count yet.
func (z *Rate) Check(key string, now time.Time) (excess int64) {
	s := z.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[key]; e != nil {
		return z.with(&e.value, now.UnixMilli()).excess
	}
	return 0
}

// Take counts a request unless the excess with it is more than burst. It returns the excess.
func (z *Rate) Acquire(key string, burst int64, now time.Time) (excess int64, ok bool) {
	s := z.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[key]
	if e == nil {
		if e = s.add(key, true); e == nil {
			return 0, false
		}
		e.value = bucket{last: now.UnixMilli()}
		return 0, true
	}
	s.use(e)
	next := z.with(&e.value, now.UnixMilli())
	if next.excess > burst {
		return next.excess, false
	}
	e.value = next
	return next.excess, true
}

// with is a bucket with another request.
func (z *Rate) with(b *bucket, now int64) bucket {
	passed := now - b.last
	if passed < -forgotten { // the clock was put back
		passed = 1
	}
	passed = max(passed, 0)
	leaked := int64(math.MaxInt64)
	if passed < math.MaxInt64/z.rate {
		leaked = z.rate * passed / 1000
	}
	next := bucket{last: b.last}
	if leaked < b.excess+Unit {
		next.excess = b.excess + Unit - leaked
	}
	if passed > 0 {
		next.last = now
	}
	return next
}

// Delay is how long a request with that excess waits, so that no more than free is beyond the rate.
func (z *Rate) Delay(excess, free int64) time.Duration {
	if excess <= free {
		return 0
	}
	return time.Duration((excess-free)*1000/z.rate) * time.Millisecond
}
