// Package pool keeps the idle connections of clients that use many servers. It limits connections,
// queues requests at the limits, and closes connections whose peers have closed them.
//
// A slot is the right to open a connection to a host: what Get returns if no connection is idle.
//
// A connection that becomes idle costs nothing at first. Get checks its socket, without waiting,
// when it takes the connection. Only a connection that stays idle is watched. On Linux, one epoll
// instance and one goroutine watch all idle sockets of a Pool. Any other connection has a goroutine
// that reads from it. If a watched connection ends, or an unexpected byte arrives, it is closed at
// once.
package pool

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"
)

// watchDelay is the idle time after which a connection is watched. A busy client reuses connections
// sooner, and so does not pay for watching them.
const watchDelay = 50 * time.Millisecond

// Limits are the settings of a Pool.
type Limits struct {
	MaxConns       int           // to a host, in use; further Gets wait. 0 is no limit
	MaxIdle        int           // to all hosts; 0 is no limit
	MaxIdlePerHost int           // 0 keeps none; a negative number is no limit
	IdleTimeout    time.Duration // until an idle connection is closed; 0 is no limit
	MaxUses        int           // of a connection; 0 is no limit
	MaxAge         time.Duration // of a connection when it is kept; 0 is no limit
}

// Pool holds the connections to hosts. K identifies a host. T is the type of what the Pool's owner
// stores with a connection. A Pool is safe for concurrent use. The zero value with Limits is ready;
// its settings must not change after the first use.
type Pool[K comparable, T any] struct {
	Limits Limits
	// SkipCheck makes Get return idle connections without checking their sockets. The caller must
	// check before sending: see Conn.Alive.
	SkipCheck bool

	clock     clock
	mu        sync.Mutex
	hosts     map[K]*host[K, T] // with connections or waiting requests
	unwatched list[K, T]        // idle connections that are not watched, the oldest first
	watched   list[K, T]        // those that are watched; all are older
	closing   bool              // CloseIdle was called, and Get was not called since
	timer     *time.Timer       // calls sweep
	sweepAt   monotime          // when timer expires; 0 if it does not run
	recent    *host[K, T]       // the host that was used last, if it is in hosts
	watcher   socketWatcher[K, T]
}

// host holds the connections to one host. The pool's mu guards it.
type host[K comparable, T any] struct {
	pool    *Pool[K, T]
	key     K
	active  int // slots, and connections in use
	idle    list[K, T]
	waiting []chan *Conn[K, T] // in the order of arrival; each channel has room for its connection
}

// Get returns an idle connection to a host, or a slot, whose Conn is nil and which the caller must
// Open. At the limit it waits, and fails with the cause of ctx if ctx ends first. With fresh it
// always returns a slot, if necessary that of an idle connection, which it closes. The caller must
// call Keep, Drop or Detach on the result.
func (p *Pool[K, T]) Get(ctx context.Context, key K, fresh bool) (*Conn[K, T], error) {
	c, queue := p.takeOrWait(key)
	if queue != nil {
		select {
		case c = <-queue:
		case <-ctx.Done():
			p.stopWaiting(key, queue)
			return nil, context.Cause(ctx)
		}
	}
	for c.Conn != nil {
		if !fresh && (p.SkipCheck || c.Alive()) {
			c.Reused = true
			return c, nil
		}
		c.Close()
		c = p.takeAnother(c.host, fresh)
	}
	return c, nil
}

// takeOrWait returns a connection or slot. At the limit, it returns a channel that receives one.
func (p *Pool[K, T]) takeOrWait(key K) (*Conn[K, T], chan *Conn[K, T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closing = false
	h := p.hostOf(key)
	if p.Limits.MaxConns > 0 && h.active >= p.Limits.MaxConns {
		queue := make(chan *Conn[K, T], 1)
		h.waiting = append(h.waiting, queue)
		return nil, queue
	}
	h.active++
	return h.takeIdle(), nil
}

// hostOf returns the host of a key. Most often that is the host that was used last: comparing two
// keys takes a few nanoseconds, and looking one up, whose strings must be hashed, fifty. The caller
// holds mu.
func (p *Pool[K, T]) hostOf(key K) *host[K, T] {
	if h := p.recent; h != nil && h.key == key {
		return h
	}
	h := p.hosts[key]
	if h == nil {
		h = &host[K, T]{pool: p, key: key}
		if p.hosts == nil {
			p.hosts = make(map[K]*host[K, T])
		}
		p.hosts[key] = h
	}
	p.recent = h
	return h
}

// stopWaiting removes queue from those that wait. A connection that arrived in the meantime is
// passed on.
func (p *Pool[K, T]) stopWaiting(key K, queue chan *Conn[K, T]) {
	p.mu.Lock()
	if h := p.hosts[key]; h != nil {
		if i := slices.Index(h.waiting, queue); i >= 0 {
			h.waiting = slices.Delete(h.waiting, i, i+1)
			p.mu.Unlock()
			return
		}
	}
	p.mu.Unlock()
	if c := <-queue; c.Conn != nil {
		c.Keep()
	} else {
		c.Drop()
	}
}

// takeAnother returns what replaces an unusable connection: another idle one, or its slot.
func (p *Pool[K, T]) takeAnother(h *host[K, T], fresh bool) *Conn[K, T] {
	if fresh {
		return &Conn[K, T]{host: h}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return h.takeIdle()
}

// takeIdle returns the connection that became idle last, or a slot. The caller holds mu.
func (h *host[K, T]) takeIdle() *Conn[K, T] {
	c := h.idle.last()
	if c == nil {
		return &Conn[K, T]{host: h}
	}
	h.pool.markInUse(c)
	return c
}

// markInUse removes an idle connection from its lists, and stops watching it. The caller holds mu.
func (p *Pool[K, T]) markInUse(c *Conn[K, T]) {
	c.host.idle.remove(c, hostList)
	if c.state == idleWatched {
		p.watched.remove(c, ageList)
		p.unwatch(c)
	} else {
		p.unwatched.remove(c, ageList)
	}
	c.state = inUse
}

// removeIfEmpty removes a host without connections and waiting requests. The caller holds mu.
func (p *Pool[K, T]) removeIfEmpty(h *host[K, T]) {
	if h.active == 0 && h.idle.n == 0 && len(h.waiting) == 0 && p.hosts[h.key] == h {
		delete(p.hosts, h.key)
		if p.recent == h {
			p.recent = nil
		}
	}
}

// release ends the use of a connection or slot, and reports whether the connection is kept or
// passed on. If another idle connection must be closed to make room, it returns that.
func (p *Pool[K, T]) release(c *Conn[K, T], isUsable bool) (isKept bool, evicted *Conn[K, T]) {
	h := c.host
	isUsable = isUsable && !c.countUse(&p.Limits)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(h.waiting) > 0 {
		if !isUsable {
			c = &Conn[K, T]{host: h}
		}
		h.waiting[0] <- c
		h.waiting[0] = nil
		h.waiting = h.waiting[1:] // not copied: a thousand may wait
		return isUsable, nil
	}
	h.active--
	if !isUsable || p.closing || p.Limits.MaxIdlePerHost >= 0 && h.idle.n >= p.Limits.MaxIdlePerHost {
		p.removeIfEmpty(h)
		return false, nil
	}
	c.state, c.idleSince = idleUnwatched, p.now()
	h.idle.add(c, hostList)
	p.unwatched.add(c, ageList)
	if p.Limits.MaxIdle > 0 && p.unwatched.n+p.watched.n > p.Limits.MaxIdle {
		evicted = p.oldest()
		p.markInUse(evicted)
		p.removeIfEmpty(evicted.host)
	}
	p.scheduleSweep(c.idleSince + monotime(watchDelay))
	return true, evicted
}

// oldest returns the connection that became idle first, or nil. The caller holds mu.
func (p *Pool[K, T]) oldest() *Conn[K, T] {
	if c := p.watched.first(); c != nil {
		return c
	}
	return p.unwatched.first()
}

// CloseIdle closes all idle connections, and those that are returned before the next Get.
func (p *Pool[K, T]) CloseIdle() {
	var all []*Conn[K, T]
	p.mu.Lock()
	p.closing = true
	for c := p.oldest(); c != nil; c = p.oldest() {
		p.markInUse(c)
		p.removeIfEmpty(c.host)
		all = append(all, c)
	}
	p.stopWatching()
	p.mu.Unlock()
	closeAll(all)
}

func closeAll[K comparable, T any](all []*Conn[K, T]) {
	for _, c := range all {
		c.Close()
	}
}

// Count holds numbers of connections, and of requests that wait for one. Watched connections count
// as idle, too.
type Count struct{ Hosts, Active, Idle, Watched, Waiting int }

// Count returns the current numbers.
func (p *Pool[K, T]) Count() Count {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := Count{Hosts: len(p.hosts), Watched: p.watched.n}
	for _, h := range p.hosts {
		n.Active += h.active
		n.Idle += h.idle.n
		n.Waiting += len(h.waiting)
	}
	return n
}

var _ net.Conn = (*Conn[int, int])(nil)
