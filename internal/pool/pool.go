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
const restAfter = 50 * time.Millisecond

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
	Unseen bool

	clock   clock
	mu      sync.Mutex
	hosts   map[K]*host[K, T] // those in use
	fresh   list[K, T]        // idle connections that are not watched, the oldest first
	resting list[K, T]        // those that are; all older
	closing bool              // CloseIdle was called, and nothing since
	timer   *time.Timer       // runs sweep
	due     moment            // when it does; 0 if it does not
	recent  *host[K, T]       // of those in use, the one that was asked for last
	watch   watch[K, T]
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
	c, queue := p.enqueue(key)
	if queue != nil {
		select {
		case c = <-queue:
		case <-ctx.Done():
			p.leave(key, queue)
			return nil, context.Cause(ctx)
		}
	}
	for c.Conn != nil {
		if !fresh && (p.Unseen || c.Alive()) {
			c.Reused = true
			return c, nil
		}
		c.Close()
		c = p.another(c.host, fresh)
	}
	return c, nil
}

// enqueue returns a connection or place or, if it is not our turn, where that will come.
func (p *Pool[K, T]) enqueue(key K) (*Conn[K, T], chan *Conn[K, T]) {
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
	return h.take(), nil
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
func (p *Pool[K, T]) leave(key K, queue chan *Conn[K, T]) {
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
func (p *Pool[K, T]) another(h *host[K, T], fresh bool) *Conn[K, T] {
	if fresh {
		return &Conn[K, T]{host: h}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return h.take()
}

// take returns the connection that has been idle for the shortest time, or a place for one. The
// caller holds mu.
func (h *host[K, T]) take() *Conn[K, T] {
	c := h.idle.last()
	if c == nil {
		return &Conn[K, T]{host: h}
	}
	h.pool.unlist(c)
	return c
}

// unlist makes a connection one that is not idle. The caller holds mu.
func (p *Pool[K, T]) unlist(c *Conn[K, T]) {
	c.host.idle.remove(c, inHost)
	if c.state == resting {
		p.resting.remove(c, byAge)
		p.unwatch(c)
	} else {
		p.fresh.remove(c, byAge)
	}
	c.state = inUse
}

// forget drops a host that has nothing. The caller holds mu.
func (p *Pool[K, T]) forget(h *host[K, T]) {
	if h.active == 0 && h.idle.n == 0 && len(h.waiting) == 0 && p.hosts[h.key] == h {
		delete(p.hosts, h.key)
		if p.recent == h {
			p.recent = nil
		}
	}
}

// keep ends the use of a connection, or of a place, and reports whether it has another use. It
// returns those that have to be closed to make room.
func (p *Pool[K, T]) keep(c *Conn[K, T], usable bool) (kept bool, evicted *Conn[K, T]) {
	h := c.host
	usable = usable && !c.worn(&p.Limits)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(h.waiting) > 0 {
		if !usable {
			c = &Conn[K, T]{host: h}
		}
		h.waiting[0] <- c
		h.waiting[0] = nil
		h.waiting = h.waiting[1:] // a thousand may wait: the rest stays where it is
		return usable, nil
	}
	h.active--
	if !usable || p.closing || p.Limits.MaxIdlePerHost >= 0 && h.idle.n >= p.Limits.MaxIdlePerHost {
		p.forget(h)
		return false, nil
	}
	c.state, c.since = fresh, p.now()
	h.idle.add(c, inHost)
	p.fresh.add(c, byAge)
	if p.Limits.MaxIdle > 0 && p.fresh.n+p.resting.n > p.Limits.MaxIdle {
		evicted = p.oldest()
		p.unlist(evicted)
		p.forget(evicted.host)
	}
	p.arm(c.since + moment(restAfter))
	return true, evicted
}

// oldest returns the connection that has been idle for the longest time, or nil. The caller
// holds mu.
func (p *Pool[K, T]) oldest() *Conn[K, T] {
	if c := p.resting.first(); c != nil {
		return c
	}
	return p.fresh.first()
}

// CloseIdle closes the connections that are kept and not in use, and those that are given back
// before the next Get.
func (p *Pool[K, T]) CloseIdle() {
	var all []*Conn[K, T]
	p.mu.Lock()
	p.closing = true
	for c := p.oldest(); c != nil; c = p.oldest() {
		p.unlist(c)
		p.forget(c.host)
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
type Count struct{ Hosts, Active, Idle, Resting, Waiting int }

// Count counts.
func (p *Pool[K, T]) Count() Count {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := Count{Hosts: len(p.hosts), Resting: p.resting.n}
	for _, h := range p.hosts {
		n.Active += h.active
		n.Idle += h.idle.n
		n.Waiting += len(h.waiting)
	}
	return n
}

var _ net.Conn = (*Conn[int, int])(nil)
