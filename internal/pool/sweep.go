package pool

import "time"

// sweepBatch is how many connections begin to be watched while the lock is held.
const sweepBatch = 64

// arm sees to it that sweep runs at a time or before. The caller holds mu.
func (p *Pool[K, T]) arm(at moment) {
	if p.due != 0 && p.due <= at {
		return
	}
	p.due = at
	wait := time.Duration(at - p.now())
	if p.timer == nil {
		p.timer = time.AfterFunc(wait, p.sweep)
	} else {
		p.timer.Reset(wait)
	}
}

// sweep closes connections that have been idle for too long, and has those watched that begin to
// rest.
func (p *Pool[K, T]) sweep() {
	var old []*Conn[K, T]
	now := p.now()
	p.mu.Lock()
	p.due = 0
	if limit := p.Limits.IdleTimeout; limit > 0 {
		for c := p.oldest(); c != nil && time.Duration(now-c.since) >= limit; c = p.oldest() {
			p.unlist(c)
			p.forget(c.host)
			old = append(old, c)
		}
	}
	for range sweepBatch {
		c := p.fresh.first()
		if c == nil || time.Duration(now-c.since) < restAfter {
			break
		}
		p.fresh.remove(c, byAge)
		p.resting.add(c, byAge)
		c.state = resting
		p.beginWatch(c)
	}
	p.plan(now)
	p.mu.Unlock()
	closeAll(old)
}

// plan arms the next sweep. The caller holds mu.
func (p *Pool[K, T]) plan(now moment) {
	if c := p.fresh.first(); c != nil {
		p.arm(c.since + moment(restAfter))
	}
	if c := p.oldest(); c != nil && p.Limits.IdleTimeout > 0 {
		p.arm(c.since + moment(p.Limits.IdleTimeout))
	}
	if at, ok := p.lingers(now); ok {
		p.arm(at)
	}
}

// beginWatch has a connection watched, from now on or still. The caller holds mu.
func (p *Pool[K, T]) beginWatch(c *Conn[K, T]) {
	if c.pending != nil || c.probe != nil && p.watchSocket(c) {
		return
	}
	pending := make(chan early, 1)
	c.pending = pending
	go p.listen(c, pending)
}

// listen waits for the end of a connection. If that is taken meanwhile, what comes is the
// beginning of what its user waits for.
func (p *Pool[K, T]) listen(c *Conn[K, T], pending chan<- early) {
	var e early
	e.n, e.err = c.Conn.Read(e.b[:])
	if !p.evict(c) {
		pending <- e
	}
}

// evict closes a connection if it is idle.
func (p *Pool[K, T]) evict(c *Conn[K, T]) bool {
	p.mu.Lock()
	idle := c.state != inUse
	if idle {
		p.unlist(c)
		p.forget(c.host)
	}
	p.mu.Unlock()
	if idle {
		c.Close()
	}
	return idle
}
