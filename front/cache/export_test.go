package cache

// NothingInMemory has all bodies be read from files.
func (c *Cache) NothingInMemory() { c.most.Store(-1) }

// Held is how many bytes are in memory of responses on their way, and of those that are no longer stored and still being sent.
func Held(c *Cache) (pending, loose int64) { return c.pending.Load(), c.index.leases.loose.Load() }
