// Package limit counts requests by key: per second, and in progress. Its memory is limited.
package limit

import (
	"hash/maphash"
	"strings"
	"sync"

	"github.com/tarehq/tare/front/conf"
)

const (
	// DefaultBytes is enough for some five thousand addresses.
	DefaultBytes = 1 << 20
	// shards is the number of locks of a table.
	shards = 16
	// overhead is the memory of an entry beside its key, about.
	overhead = 160
)

// table stores values by key in limited memory.
type table[V any] struct {
	seed   maphash.Seed
	shards [shards]shard[V]
}

// shard is a part of a table. Callers of its methods hold its lock.
type shard[V any] struct {
	mu      sync.Mutex
	entries map[string]*entry[V]
	left    int64    // remaining bytes
	ring    entry[V] // newest.next, oldest.prev
}

// entry is the value of a key.
type entry[V any] struct {
	key        string
	value      V
	prev, next *entry[V]
}

func (t *table[V]) init(c conf.Zone) {
	bytes := c.Bytes
	if bytes <= 0 {
		bytes = DefaultBytes
	}
	t.seed = maphash.MakeSeed()
	for i := range t.shards {
		s := &t.shards[i]
		s.entries, s.left = make(map[string]*entry[V]), bytes/shards
		s.ring.prev, s.ring.next = &s.ring, &s.ring
	}
}

func (t *table[V]) shard(key string) *shard[V] {
	return &t.shards[maphash.String(t.seed, key)%shards]
}

// add adds an entry for a key. With evict it removes others to make room, the oldest first. It
// returns nil if there is no room.
func (s *shard[V]) add(key string, evict bool) *entry[V] {
	need := int64(len(key) + overhead)
	for s.left < need {
		oldest := s.ring.prev
		if !evict || oldest == &s.ring {
			return nil
		}
		s.remove(oldest)
	}
	e := &entry[V]{key: strings.Clone(key)} // the key may be part of a large string
	s.left -= need
	s.entries[e.key] = e
	s.insert(e)
	return e
}

// use moves an entry to the front.
func (s *shard[V]) use(e *entry[V]) {
	if s.ring.next != e {
		e.prev.next, e.next.prev = e.next, e.prev
		s.insert(e)
	}
}

func (s *shard[V]) insert(e *entry[V]) {
	e.prev, e.next = &s.ring, s.ring.next
	e.prev.next, e.next.prev = e, e
}

func (s *shard[V]) remove(e *entry[V]) {
	e.prev.next, e.next.prev = e.next, e.prev
	delete(s.entries, e.key)
	s.left += int64(len(e.key) + overhead)
}

// Len returns the number of keys.
func (t *table[V]) Len() int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.entries)
		s.mu.Unlock()
	}
	return n
}
