package cache

import (
	"sync"
	"sync/atomic"
	"time"
)

// flightKey identifies a fetch: a key, and the values of the fields that the response is known to
// vary by.
type flightKey struct {
	key     string // the whole key
	variant uint64
}

// flight is a fetch that other requests wait for.
type flight struct {
	key   flightKey
	id    keyID
	since time.Time
	done  chan struct{}
	once  sync.Once
	// set before done is closed: the response was stored, or may have been; false if it cannot be
	kept bool
}

// end ends a flight and wakes the waiting requests. Further calls have no effect.
func (c *Cache) end(f *flight, kept bool) {
	if f == nil {
		return
	}
	f.once.Do(func() {
		sh := c.index.shard(f.id)
		sh.mu.Lock()
		if sh.flights[f.key] == f {
			delete(sh.flights, f.key)
		}
		sh.mu.Unlock()
		f.kept = kept
		close(f.done)
	})
}

// join returns the flight for a request, and whether the request leads it: no other does, or the
// leader has needed more than age. It returns nil if the request would lead, but may not.
func (c *Cache) join(id keyID, key flightKey, now time.Time, age time.Duration, mayLead bool) (f *flight, leads bool) {
	sh := c.index.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if f = sh.flights[key]; f != nil && now.Sub(f.since) < age {
		return f, false
	}
	if !mayLead {
		return nil, false
	}
	f = &flight{key: key, id: id, since: now, done: make(chan struct{})}
	sh.flights[key] = f
	return f, true
}

// flightKeyOf returns the flight key of a request. It contains the fields that a stored response
// varies by.
func (c *Cache) flightKeyOf(id keyID, key string, request Fields) flightKey {
	sh := c.index.shard(id)
	sh.mu.Lock()
	var known []choice
	for _, e := range sh.keys[id] {
		if e.stored != nil {
			known = e.stored.choices
			break
		}
	}
	sh.mu.Unlock()
	requested := make([]choice, len(known))
	for i, k := range known {
		requested[i] = choice{k.name, valueOf(request, k.name)}
	}
	return flightKey{key, hashChoices(c.index.seed, requested)}
}

// wait waits until a flight ends, or until the request must go on without it. If it returns no
// response, the caller looks again: a response may be stored now, or another request may fetch.
func (s *session) wait(f *flight) (*Response, error) {
	policy := &s.rules.policy
	if s.until.IsZero() {
		s.until = time.Now().Add(policy.LockTimeout)
	}
	at := s.until
	if overdue := f.since.Add(policy.LockAge); overdue.Before(at) {
		at = overdue
	}
	hasRoom, hasEnded := s.c.waiting.Add(1) <= maxWaiting, false
	if hasRoom {
		timer := time.NewTimer(time.Until(at))
		select {
		case <-f.done:
			hasEnded = true
		case <-timer.C:
		case <-s.q.Context.Done():
		}
		timer.Stop()
	}
	s.c.waiting.Add(-1)
	switch {
	case hasEnded && !f.kept:
		return s.fetch()
	case hasEnded:
		return nil, nil
	case s.q.Context.Err() != nil:
		return nil, s.q.Context.Err()
	case hasRoom && at.Before(s.until):
		return nil, nil
	}
	return s.pass()
}

// marks stores a deadline for each of some keys. Keys share slots: a later one overwrites an
// earlier one.
type marks [1 << 10]atomic.Uint64

func (m *marks) mark(id keyID, until time.Time) {
	slot := id.slot()
	m[slot%uint64(len(m))].Store(slot>>32<<32 | uint64(uint32(until.Unix())))
}

func (m *marks) holds(id keyID, now time.Time) bool {
	slot := id.slot()
	mark := m[slot%uint64(len(m))].Load()
	return mark>>32 == slot>>32 && now.Unix() < int64(uint32(mark))
}

// uses counts requests for keys without a stored response, approximately: keys share slots as in
// marks.
type uses [8 << 10]atomic.Uint64

// count counts a request, and returns the number of requests so far.
func (u *uses) count(id keyID) int {
	slot := id.slot()
	place := &u[slot%uint64(len(u))]
	for {
		old := place.Load()
		fresh := slot>>16<<16 | 1
		if old>>16 == slot>>16 {
			fresh = old + 1
			if old&0xffff == 0xffff {
				return 0xffff
			}
		}
		if place.CompareAndSwap(old, fresh) {
			return int(fresh & 0xffff)
		}
	}
}

// changes counts invalidations by key: a response that arrives meanwhile is not stored, and a file
// of an earlier run that is found later is removed. Keys share slots, and then also invalidations.
type changes [1 << 10]atomic.Uint64

func (g *changes) of(id keyID) *atomic.Uint64 { return &g[id.slot()%uint64(len(g))] }
