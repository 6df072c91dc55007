package fcgi

// Idle returns the number of idle connections.
func (t *Transport) Idle() int { return t.run().Count().Idle }

// Pools returns the number of addresses in the pool.
func (t *Transport) Pools() int { return t.run().Count().Hosts }
