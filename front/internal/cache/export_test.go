package cache

import (
	"log"

	"github.com/tarehq/tare/front/conf"
)

// New opens a cache and begins.
func New(config conf.Cache, errors *log.Logger) (*Cache, error) {
	c, err := Open(config, errors)
	if err == nil {
		c.Begin()
	}
	return c, err
}

// NothingInMemory makes the cache read all bodies from files.
func (c *Cache) NothingInMemory() { c.most.Store(-1) }

// Held returns the bytes in memory of responses on their way in, and of those that left the index
// and are still being sent.
func Held(c *Cache) (pending, loose int64) { return c.pending.Load(), c.index.leases.loose.Load() }
