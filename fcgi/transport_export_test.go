package fcgi

// Waiting is how many requests wait for their turn.
func (t *Transport) Waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, p := range t.pools {
		n += len(p.waiting)
	}
	return n
}

// Idle is how many connections are kept and not in use, Active how many are in use.
func (t *Transport) Idle() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, p := range t.pools {
		n += len(p.idle)
	}
	return n
}

// Active is how many connections are in use.
func (t *Transport) Active() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, p := range t.pools {
		n += p.active
	}
	return n
}

// Pools is how many addresses are remembered.
func (t *Transport) Pools() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.pools)
}
