package client

import "time"

// sweepBatch is the number of connections that one sweep starts to watch under the lock.
const sweepBatch = 64

// scheduleSweep makes sweep run at the given time or before. The caller holds mu.
func (p *pool) scheduleSweep(at time.Time) {
	if !p.sweepAt.IsZero() && !at.Before(p.sweepAt) {
		return
	}
	p.sweepAt = at
	if p.timer == nil {
		p.timer = time.AfterFunc(time.Until(at), p.sweep)
	} else {
		p.timer.Reset(time.Until(at))
	}
}

// sweep closes connections that have been idle for idleTimeout, and starts to watch those that have
// been idle for watchDelay.
func (p *pool) sweep() {
	var old []*conn
	p.mu.Lock()
	now := time.Now()
	if p.sweepAt = (time.Time{}); p.limits.idleTimeout > 0 {
		old = p.evictAfter(p.limits.idleTimeout)
	}
	for range sweepBatch {
		c := p.unwatched.first
		if c == nil || now.Sub(c.idleSince) < watchDelay {
			break
		}
		p.unwatched.remove(c, ageList)
		p.watched.add(c, ageList)
		c.idleIn = &p.watched
		p.startWatching(c)
	}
	if c := p.unwatched.first; c != nil {
		p.scheduleSweep(c.idleSince.Add(watchDelay))
	}
	if c := p.oldest(); c != nil && p.limits.idleTimeout > 0 {
		p.scheduleSweep(c.idleSince.Add(p.limits.idleTimeout))
	}
	if at, ok := p.closeEmptyWatcher(now); ok {
		p.scheduleSweep(at)
	}
	p.mu.Unlock()
	closeAll(old)
}

// startWatching starts to watch a connection, unless a goroutine reads from it. The caller
// holds mu.
func (p *pool) startWatching(c *conn) {
	if c.h2 != nil || c.pending != nil || c.probe != nil && p.watchSocket(c) {
		return
	}
	pending := make(chan earlyRead, 1)
	c.pending = pending
	go p.watchByRead(c, pending)
}

// watchByRead waits for the end of a connection by reading from it. If the connection is in use
// again, its user receives the result first.
func (p *pool) watchByRead(c *conn, pending chan<- earlyRead) {
	var e earlyRead
	e.n, e.err = c.Conn.Read(e.b[:])
	if !p.closeIfIdle(c) {
		pending <- e
	}
}

// closeIfIdle closes a connection if it is idle, and reports whether it was.
func (p *pool) closeIfIdle(c *conn) bool {
	p.mu.Lock()
	wasIdle := c.idleIn != nil
	if wasIdle {
		p.evict(c)
	}
	p.mu.Unlock()
	if wasIdle {
		c.Close()
	}
	return wasIdle
}
