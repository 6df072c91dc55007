package files

import (
	"strconv"
	"sync"
	"testing"
)

func resourceOf(key string, bytes int) *resource {
	return &resource{key: key, identity: &variant{content: make([]byte, bytes)}}
}

// The cache stays within its limits, and keeps what is requested.
func TestCacheStaysWithinItsLimits(t *testing.T) {
	const most, size = 100, 10_000
	c := newCache(most, 50*(size+resourceWeight+10))
	onStored := func() {}
	for i := range 5000 {
		c.put(resourceOf(strconv.Itoa(i), size), onStored)
		if i%10 == 0 {
			c.put(resourceOf("popular", 10), onStored)
		}
		if c.get("popular") == nil {
			t.Fatalf("after %d: the popular resource is gone", i)
		}
		if len(c.ring) > most || c.bytes > c.maxBytes {
			t.Fatalf("%d resources, %d bytes", len(c.ring), c.bytes)
		}
	}
	if len(c.ring) < 40 {
		t.Errorf("only %d of about 50 resources are stored", len(c.ring))
	}
	c.put(resourceOf("giant", int(c.maxBytes)), onStored)
	if c.get("giant") != nil {
		t.Error("a resource larger than the cache is stored")
	}
	r := resourceOf("grows", 10)
	c.put(r, onStored)
	r.encoded[0].Store(&variant{content: make([]byte, c.maxBytes)})
	if c.grow(r, c.maxBytes); c.bytes > c.maxBytes {
		t.Errorf("grown to %d bytes", c.bytes)
	}
	c.removeBelow("")
	if c.bytes != 0 || len(c.ring) != 0 {
		t.Errorf("the empty cache has %d bytes and %d resources", c.bytes, len(c.ring))
	}
	for i := range c.shards {
		if m := c.shards[i].Load(); m != nil && len(*m) > 0 {
			t.Errorf("shard %d holds %d", i, len(*m))
		}
	}
}

func TestCacheRemovesKeys(t *testing.T) {
	c := newCache(100, 1<<20)
	for _, k := range []string{"/", "/a", "/a/", "/a/b", "/a/b/c", "/ab"} {
		c.put(resourceOf(k, 1), func() {})
	}
	c.removeBelow("/a/")
	for k, want := range map[string]bool{"/": true, "/a": true, "/a/": false, "/a/b": false, "/a/b/c": false,
		"/ab": true} {
		if got := c.get(k) != nil; got != want {
			t.Errorf("%s: %v", k, got)
		}
	}
	old := c.get("/a")
	fresh := resourceOf("/a", 2)
	c.put(fresh, func() {})
	if c.remove("/a", old); c.get("/a") != fresh {
		t.Error("the successor of a removed resource was removed, too")
	}
	if !old.identity.files.retired || c.renew(old, func() {}) || !c.renew(fresh, func() {}) {
		t.Error("the replaced resource is not retired")
	}
	c.close()
	if c.put(resourceOf("/x", 1), func() {}); c.get("/x") != nil || c.get("/a") != nil {
		t.Error("a closed cache stores resources")
	}
}

func TestCacheIsSafeForConcurrentUse(t *testing.T) {
	c := newCache(50, 1<<20)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 2000 {
				k := "/" + strconv.Itoa((i*7+w)%80)
				if c.get(k) == nil {
					c.put(resourceOf(k, 100), func() {})
				}
				if i%50 == 0 {
					c.remove(k, nil)
				}
			}
		})
	}
	all.Wait()
	if len(c.ring) > 50 {
		t.Errorf("%d resources", len(c.ring))
	}
}
