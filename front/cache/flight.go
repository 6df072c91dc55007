package cache

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// flightKey is what an answer is fetched for once: a key, and what is known to make a difference to it.
type flightKey struct {
	key     string // all of it
	variant uint64
}

// flight is an answer on its way in, as those see it who wait for it.
type flight struct {
	key   flightKey
	id    keyID
	since time.Time
	done  chan struct{}
	once  sync.Once
	kept  bool // set before done is closed: the answer was kept, or nobody knows; otherwise it cannot be
}

// end has those who wait go on. It may be called again, without effect.
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

// join returns the flight for a request that cannot be answered as it is, and whether the request is who makes it: nobody does, or
// has for too long. It returns nil if that is so, and the request may not lead.
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

// flightKeyOf is of the request's key and of the fields that answers to it are known to vary by.
func (c *Cache) flightKeyOf(id keyID, key string, request *fields) flightKey {
	sh := c.index.shard(id)
	sh.mu.Lock()
	var known []choice
	if v := sh.keys[id]; v != nil {
		for _, e := range v.all {
			if e.stored != nil {
				known = e.stored.choices
				break
			}
		}
	}
	sh.mu.Unlock()
	theirs := make([]choice, len(known))
	for i, k := range known {
		theirs[i] = choice{k.name, request.value(k.name)}
	}
	return flightKey{key, hashChoices(c.index.seed, theirs)}
}

// waited is how waiting for a flight ended.
type waited int

const (
	landed    waited = iota // the answer may be there now
	notKept                 // it could not be kept
	overdue                 // another one may fetch
	outOfTime               // or room: LockTimeout has passed
	clientGone
)

// wait waits for a flight until it has landed, or for a reason to go on without it.
func (c *Cache) wait(ctx context.Context, f *flight, until, overdueAt time.Time) waited {
	if c.waiting.Add(1) > maxWaiting {
		c.waiting.Add(-1)
		return outOfTime
	}
	defer c.waiting.Add(-1)
	result, at := outOfTime, until
	if overdueAt.Before(until) {
		result, at = overdue, overdueAt
	}
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-f.done:
		if f.kept {
			return landed
		}
		return notKept
	case <-timer.C:
		return result
	case <-ctx.Done():
		return clientGone
	}
}

// marks remember until when something holds of keys. They forget: a key that has another's place takes it.
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

// uses counts requests for keys of which nothing is kept, roughly, as marks do.
type uses [8 << 10]atomic.Uint64

// count notes a request, and returns how many there were.
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

// changes count how often keys were invalidated: an answer on its way in meanwhile is not kept. Keys that share a place share that
// fate.
type changes [1 << 10]atomic.Uint64

func (g *changes) of(id keyID) *atomic.Uint64 { return &g[id.slot()%uint64(len(g))] }
