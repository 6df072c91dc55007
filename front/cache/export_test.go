package cache

// NothingInMemory has all bodies be read from files.
func (c *Cache) NothingInMemory() { c.most.Store(-1) }
