// Package pool keeps connections for clients that ask many servers: who waits for one, which
// are idle, and which of those their peers have closed.
//
// A connection that becomes idle costs nothing at first: whoever takes it has its socket looked
// at, without waiting. Only one that stays idle is watched: on Linux a socket waits in an epoll
// instance, with all others of its Pool and one goroutine; everything else has a goroutine
// that reads. The end of a watched connection, or a byte that nobody has asked for, closes it
// at once.
package pool

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"
)

// restAfter is how long a connection is idle before it is watched. Connections of a busy client
// are taken again sooner, and never pay for that.
const watchDelay = 50 * time.Millisecond

// Limits are the settings of a Pool.
type Limits struct {
	MaxConns       int           // to a host; who asks for more waits. 0 is no bound
	MaxIdle        int           // of all hosts; 0 is no bound
	MaxIdlePerHost int           // 0 keeps none, less than that is no bound
	IdleTimeout    time.Duration // how long an idle connection is kept; 0 is no bound
	MaxUses        int           // how often a connection is used; 0 is no bound
	MaxAge         time.Duration // how long it is used at all; 0 is no bound
}

// Pool is the connections to hosts. K says what is one host. T is what the owner of a Pool keeps
// with a connection. A Pool may be used by any number of goroutines; the zero value with
// settings, which must not change once it is used, is ready.
type Pool[K comparable, T any] struct {
	Limits Limits
	// Unseen has Get hand out idle connections without a look at their sockets: whoever takes
	// one sees to that before he sends. See Conn.Alive.
	SkipCheck bool

	clock     clock
	mu        sync.Mutex
	hosts     map[K]*host[K, T] // those in use
	unwatched list[K, T]        // idle connections that are not watched, the oldest first
	watched   list[K, T]        // those that are; all older
	closing   bool              // CloseIdle was called, and nothing since
	timer     *time.Timer       // runs sweep
	sweepAt   monotime          // when it does; 0 if it does not
	recent    *host[K, T]       // of those in use, the one that was asked for last
	watcher   socketWatcher[K, T]
}

// host is the connections to one host. The pool's mu guards it.
type host[K comparable, T any] struct {
	pool    *Pool[K, T]
	key     K
	active  int // connections in use or being opened
	idle    list[K, T]
	waiting []chan *Conn[K, T] // the first first; each has room for what it waits for
}

// Get returns a connection to a host, or, with a nil Conn, the place for one that the caller must
// Open. It waits for its turn, and fails with the cause of ctx if that ends first. With fresh it
// is always such a place, if need be that of an idle connection. Each is ended by Keep or Drop.
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

// enqueue returns a connection or place or, if it is not our turn, where that will come.
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

// hostOf returns the host of a key, which is most often the one that was asked for last: to compare two
// keys takes a few nanoseconds, and to look one up, whose strings have to be hashed, fifty. The caller
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

// leave takes whoever waits at queue out of it. What came nevertheless is for the next.
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

// another returns what comes instead of a connection that cannot be used: one more that is idle,
// or its place.
func (p *Pool[K, T]) takeAnother(h *host[K, T], fresh bool) *Conn[K, T] {
	if fresh {
		return &Conn[K, T]{host: h}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return h.takeIdle()
}

// take returns the connection that has been idle for the shortest time, or a place for one. The
// caller holds mu.
func (h *host[K, T]) takeIdle() *Conn[K, T] {
	c := h.idle.last()
	if c == nil {
		return &Conn[K, T]{host: h}
	}
	h.pool.markInUse(c)
	return c
}

// unlist makes a connection one that is not idle. The caller holds mu.
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

// forget drops a host that has nothing. The caller holds mu.
func (p *Pool[K, T]) removeIfEmpty(h *host[K, T]) {
	if h.active == 0 && h.idle.n == 0 && len(h.waiting) == 0 && p.hosts[h.key] == h {
		delete(p.hosts, h.key)
		if p.recent == h {
			p.recent = nil
		}
	}
}

// keep ends the use of a connection, or of a place, and reports whether it has another use. It
// returns those that have to be closed to make room.
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
		h.waiting = h.waiting[1:] // a thousand may wait: the rest stays where it is
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

// oldest returns the connection that has been idle for the longest time, or nil. The caller
// holds mu.
func (p *Pool[K, T]) oldest() *Conn[K, T] {
	if c := p.watched.first(); c != nil {
		return c
	}
	return p.unwatched.first()
}

// CloseIdle closes the connections that are kept and not in use, and those that are given back
// before the next Get.
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

// Count is how many connections a Pool has, and how many wait for one. Those that rest are idle, too.
type Count struct{ Hosts, Active, Idle, Watched, Waiting int }

// Count counts.
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
