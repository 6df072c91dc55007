package fcgi

// Waiting is how many requests wait for their turn.
func (t *Transport) Waiting() int { return t.run().Count().Waiting }

// Idle is how many connections are kept and not in use.
func (t *Transport) Idle() int { return t.run().Count().Idle }

// Active is how many connections are in use.
func (t *Transport) Active() int { return t.run().Count().Active }

// Pools is how many addresses are remembered.
func (t *Transport) Pools() int { return t.run().Count().Hosts }
