package files

import (
	"hash/maphash"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// cache remembers resources by their keys. To find one takes no lock and writes nothing that processors share: each
// shard is a map that is replaced when it changes, and is small. All changes are made under mu.
//
// What goes when it is full is told by a clock: its hand spares, once, what was asked for since it last came by.
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

// perShard is how many resources a full cache has in a shard, about: what a change has to copy.
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

// get finds a resource, or nil.
func (c *cache) get(key string) *resource {
	shard := c.shard(key).Load()
	if shard == nil {
		return nil
	}
	r := (*shard)[key]
	if r != nil && !r.used.Load() {
		r.used.Store(true)
	}
	return r
}

// put remembers a resource in the place of any other with its key. asTold is called while nothing can be forgotten.
func (c *cache) put(r *resource, asTold func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	asTold()
	if c.closed || r.weight() > c.maxBytes {
		c.drop(c.find(r.key))
		r.retire()
		return
	}
	c.drop(c.find(r.key))
	for len(c.ring) > 0 && (len(c.ring) >= c.maxResources || c.bytes+r.weight() > c.maxBytes) {
		c.evict()
	}
	c.change(r.key, r)
	r.at, r.charged = len(c.ring), r.weight()
	c.ring = append(c.ring, r)
	c.bytes += r.charged
}

// renew calls asTold if a resource is still remembered, and reports whether it is.
func (c *cache) renew(r *resource, asTold func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.find(r.key) != r {
		return false
	}
	asTold()
	return true
}

// grow notes that a resource has become heavier, and reports whether it is still remembered.
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

// remove forgets a key, if what it stands for is r or r is nil.
func (c *cache) remove(key string, r *resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.find(key); r == nil || found == r {
		c.drop(found)
	}
}

// removeBelow forgets the keys that begin with prefix.
func (c *cache) removeBelow(prefix string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.ring) - 1; i >= 0; i-- { // drop puts the last one here, which was looked at
		if strings.HasPrefix(c.ring[i].key, prefix) {
			c.drop(c.ring[i])
		}
	}
}

// close forgets everything and remembers nothing more.
func (c *cache) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.removeBelow("")
}

// each calls f for every resource.
func (c *cache) each(f func(*resource)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.ring {
		f(r)
	}
}

// What follows is called with mu held.

func (c *cache) find(key string) *resource {
	if shard := c.shard(key).Load(); shard != nil {
		return (*shard)[key]
	}
	return nil
}

// change has a key stand for r, or for nothing.
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

// drop forgets a resource; nil is none.
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
	r.retire()
}

// evict forgets the first resource that the hand finds unused, and that the hand has made so if it must come round.
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
