package files

import (
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"
)

// cache stores resources by key. A lookup takes no lock, and writes nothing that CPUs share: each
// shard is a small map that is replaced when it changes. All changes hold mu.
//
// A clock selects what to evict: its hand spares resources once if they were requested since its
// last pass.
type cache struct {
	seed   maphash.Seed
	shards []atomic.Pointer[map[string]*resource]

	mu           sync.Mutex
	ring         []*resource
	hand         int
	bytes        int64
	maxResources int
	maxBytes     int64
	closed       bool
}

// perShard is the number of resources in a shard of a full cache, about. A change copies a shard.
const perShard = 32

func newCache(maxResources int, maxBytes int64) *cache {
	shards := 1
	for shards*perShard < maxResources {
		shards *= 2
	}
	return &cache{
		seed: maphash.MakeSeed(), shards: make([]atomic.Pointer[map[string]*resource], shards),
		maxResources: maxResources, maxBytes: maxBytes,
	}
}

func (c *cache) shard(key string) *atomic.Pointer[map[string]*resource] {
	return &c.shards[maphash.String(c.seed, key)&uint64(len(c.shards)-1)]
}

func (c *cache) get(key string) *resource {
	r := c.find(key)
	if r != nil && !r.used.Load() {
		r.used.Store(true)
	}
	return r
}

func (c *cache) find(key string) *resource {
	if shard := c.shard(key).Load(); shard != nil {
		return (*shard)[key]
	}
	return nil
}

// put stores a resource and replaces any other with its key.
func (c *cache) put(r *resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(c.find(r.key))
	if c.closed || r.weight() > c.maxBytes {
		return
	}
	for len(c.ring) > 0 && (len(c.ring) >= c.maxResources || c.bytes+r.weight() > c.maxBytes) {
		c.evict()
	}
	c.change(r.key, r)
	r.at, r.charged = len(c.ring), r.weight()
	c.ring = append(c.ring, r)
	c.bytes += r.charged
}

// grow records that a resource needs more memory, and reports whether it is still stored.
func (c *cache) grow(r *resource, by int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.find(r.key) != r {
		return false
	}
	r.charged += by
	c.bytes += by
	for c.bytes > c.maxBytes && len(c.ring) > 0 {
		c.evict()
	}
	return c.find(r.key) == r
}

// remove removes a resource, if it is still stored.
func (c *cache) remove(r *resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.find(r.key) == r {
		c.drop(r)
	}
}

// close removes everything, and stores nothing more.
func (c *cache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for len(c.ring) > 0 {
		c.drop(c.ring[0])
	}
}

// The caller of the following methods holds mu.

// change sets the resource of a key; nil removes it.
func (c *cache) change(key string, r *resource) {
	shard := c.shard(key)
	fresh := make(map[string]*resource, 1)
	if old := shard.Load(); old != nil {
		fresh = maps.Clone(*old)
	}
	if r == nil {
		delete(fresh, key)
	} else {
		fresh[key] = r
	}
	shard.Store(&fresh)
}

// drop removes a resource. r may be nil.
func (c *cache) drop(r *resource) {
	if r == nil {
		return
	}
	c.change(r.key, nil)
	last := len(c.ring) - 1
	c.ring[r.at] = c.ring[last]
	c.ring[r.at].at = r.at
	c.ring[last] = nil
	c.ring = c.ring[:last]
	c.bytes -= r.charged
}

// evict removes the first unused resource that the hand finds. The hand marks resources as unused
// when it passes.
func (c *cache) evict() {
	for range len(c.ring) + 1 {
		c.hand %= len(c.ring)
		if !c.ring[c.hand].used.Swap(false) {
			break
		}
		c.hand++
	}
	c.drop(c.ring[c.hand%len(c.ring)])
}
