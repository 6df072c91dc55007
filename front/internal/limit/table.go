// Package limit counts requests by key: per second, and in progress. Its memory is limited.
package limit

import (
	"cmp"
	"hash/maphash"
	"math"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

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

type table[V any] struct {
	seed   maphash.Seed
	shards [shards]shard[V]
}

// shard is a part of a table. Callers of its methods hold its lock.
type shard[V any] struct {
	mu      sync.Mutex
	entries *simplelru.LRU[string, V]
	left    int64 // remaining bytes
}

func (t *table[V]) init(c conf.Zone) {
	t.seed = maphash.MakeSeed()
	for i := range t.shards {
		s := &t.shards[i]
		s.left = cmp.Or(max(c.Bytes, 0), DefaultBytes) / shards
		s.entries, _ = simplelru.NewLRU(math.MaxInt, func(key string, _ V) { s.left += int64(len(key) + overhead) })
	}
}

// lock returns the shard of a key, locked.
func (t *table[V]) lock(key string) *shard[V] {
	s := &t.shards[maphash.String(t.seed, key)%shards]
	s.mu.Lock()
	return s
}

// add adds an unknown key. With evict it removes others to make room, the oldest first. It returns
// false if there is no room.
func (s *shard[V]) add(key string, value V, evict bool) bool {
	need := int64(len(key) + overhead)
	for s.left < need {
		if !evict || s.entries.Len() == 0 {
			return false
		}
		s.entries.RemoveOldest()
	}
	s.left -= need
	s.entries.Add(strings.Clone(key), value) // the key may be part of a large string
	return true
}

func (t *table[V]) Len() int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += s.entries.Len()
		s.mu.Unlock()
	}
	return n
}

// Conns counts requests in progress, by key. It is safe for concurrent use. Config.Bytes limits its
// memory: if that is used up, unknown keys are rejected.
type Conns struct{ table[int] }

// NewConns makes a zone for limits of requests in progress.
func NewConns(c conf.Zone) *Conns {
	z := &Conns{}
	z.init(c)
	return z
}

// Enter counts a request, unless most requests are already in progress, or there is no memory for
// the key. If it returns true, Leave must follow.
func (z *Conns) Enter(key string, most int) bool {
	s := z.lock(key)
	defer s.mu.Unlock()
	n, ok := s.entries.Get(key)
	if n >= most {
		return false
	}
	if !ok {
		return s.add(key, 1, false)
	}
	s.entries.Add(key, n+1)
	return true
}

// Leave ends a request that Enter counted.
func (z *Conns) Leave(key string) {
	s := z.lock(key)
	defer s.mu.Unlock()
	if n, _ := s.entries.Get(key); n > 1 {
		s.entries.Add(key, n-1)
	} else {
		s.entries.Remove(key)
	}
}
