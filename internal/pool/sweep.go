package pool

import "time"

// sweepBatch is how many connections begin to be watched while the lock is held.
const sweepBatch = 64

// arm sees to it that sweep runs at a time or before. The caller holds mu.
func (p *Pool[K, T]) scheduleSweep(at monotime) {
	if p.sweepAt != 0 && p.sweepAt <= at {
		return
	}
	p.sweepAt = at
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
	p.sweepAt = 0
	if limit := p.Limits.IdleTimeout; limit > 0 {
		for c := p.oldest(); c != nil && time.Duration(now-c.idleSince) >= limit; c = p.oldest() {
			p.markInUse(c)
			p.removeIfEmpty(c.host)
			old = append(old, c)
		}
	}
	for range sweepBatch {
		c := p.unwatched.first()
		if c == nil || time.Duration(now-c.idleSince) < watchDelay {
			break
		}
		p.unwatched.remove(c, ageList)
		p.watched.add(c, ageList)
		c.state = idleWatched
		p.startWatching(c)
	}
	p.scheduleNextSweep(now)
	p.mu.Unlock()
	closeAll(old)
}

// plan arms the next sweep. The caller holds mu.
func (p *Pool[K, T]) scheduleNextSweep(now monotime) {
	if c := p.unwatched.first(); c != nil {
		p.scheduleSweep(c.idleSince + monotime(watchDelay))
	}
	if c := p.oldest(); c != nil && p.Limits.IdleTimeout > 0 {
		p.scheduleSweep(c.idleSince + monotime(p.Limits.IdleTimeout))
	}
	if at, ok := p.closeEmptyWatcher(now); ok {
		p.scheduleSweep(at)
	}
}

// beginWatch has a connection watched, from now on or still. The caller holds mu.
func (p *Pool[K, T]) startWatching(c *Conn[K, T]) {
	if c.pending != nil || c.probe != nil && p.watchSocket(c) {
		return
	}
	pending := make(chan earlyRead, 1)
	c.pending = pending
	go p.watchByRead(c, pending)
}

// listen waits for the end of a connection. If that is taken meanwhile, what comes is the
// beginning of what its user waits for.
func (p *Pool[K, T]) watchByRead(c *Conn[K, T], pending chan<- earlyRead) {
	var e earlyRead
	e.n, e.err = c.Conn.Read(e.b[:])
	if !p.closeIfIdle(c) {
		pending <- e
	}
}

// evict closes a connection if it is idle.
func (p *Pool[K, T]) closeIfIdle(c *Conn[K, T]) bool {
	p.mu.Lock()
	wasIdle := c.state != inUse
	if wasIdle {
		p.markInUse(c)
		p.removeIfEmpty(c.host)
	}
	p.mu.Unlock()
	if wasIdle {
		c.Close()
	}
	return wasIdle
}
