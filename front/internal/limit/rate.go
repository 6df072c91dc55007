package limit

import (
	"fmt"
	"math"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// Rate counts requests by key, as a leaky bucket: each request adds one, and the bucket leaks at
// the zone's rate. It is safe for concurrent use. Config.Bytes limits its memory: the least
// recently used keys are removed first.
type Rate struct {
	table[bucket]
	rate int64 // thousandths of a request per second
}

type bucket struct {
	excess int64 // thousandths of a request
	last   int64 // time of the last request in milliseconds
}

const (
	// Unit is what a request adds. The unit of an excess is a thousandth of a request.
	Unit = 1000
	// maxRate is a billion requests per second, so that no product overflows.
	maxRate = 1e9
	// clockStep is the least step back of the clock, in milliseconds, that counts as a changed
	// clock: nginx's number.
	clockStep = 60_000
)

// NewRate makes a zone for limits of the request rate.
func NewRate(c conf.Zone) (*Rate, error) {
	if !(c.Rate*Unit >= 1) || c.Rate > maxRate {
		return nil, fmt.Errorf("limit_req_zone %q: rate %v per second is out of range (minimum: 0.001)", c.Name, c.Rate)
	}
	z := &Rate{rate: int64(math.Round(c.Rate * Unit))}
	z.init(c)
	return z, nil
}

// Check returns the excess with another request, without counting it.
func (z *Rate) Check(key string, now time.Time) (excess int64) {
	s := z.lock(key)
	defer s.mu.Unlock()
	if b, ok := s.entries.Peek(key); ok {
		return z.with(b, now.UnixMilli()).excess
	}
	return 0
}

// Acquire counts a request, unless the excess with it is more than burst. It returns the excess.
func (z *Rate) Acquire(key string, burst int64, now time.Time) (excess int64, ok bool) {
	s := z.lock(key)
	defer s.mu.Unlock()
	b, ok := s.entries.Get(key)
	if !ok {
		return 0, s.add(key, bucket{last: now.UnixMilli()}, true)
	}
	next := z.with(b, now.UnixMilli())
	if next.excess > burst {
		return next.excess, false
	}
	s.entries.Add(key, next)
	return next.excess, true
}

// with returns a bucket with another request.
func (z *Rate) with(b bucket, now int64) bucket {
	passed := now - b.last
	if passed < -clockStep { // the clock was set back
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

// Delay returns how long a request with an excess waits until at most free of the excess is left.
func (z *Rate) Delay(excess, free int64) time.Duration {
	if excess <= free {
		return 0
	}
	return time.Duration((excess-free)*1000/z.rate) * time.Millisecond
}
