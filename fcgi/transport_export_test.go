package fcgi

// Waiting returns the number of requests that wait for a connection.
func (t *Transport) Waiting() int { return t.run().Count().Waiting }

// Idle returns the number of idle connections.
func (t *Transport) Idle() int { return t.run().Count().Idle }

// Active returns the number of connections in use.
func (t *Transport) Active() int { return t.run().Count().Active }

// Pools returns the number of addresses in the pool.
func (t *Transport) Pools() int { return t.run().Count().Hosts }
