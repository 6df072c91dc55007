package client

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// watchDelay is the idle time after which a connection is watched. A busy client reuses connections
// sooner, and so does not pay for watching them.
const watchDelay = 50 * time.Millisecond

// limits are the settings of a pool.
type limits struct {
	maxConns       int           // to a host, in use; further requests wait. 0 is no limit
	maxIdle        int           // to all hosts; 0 is no limit
	maxIdlePerHost int           // 0 keeps none; a negative number is no limit
	idleTimeout    time.Duration // after which an idle connection is closed; 0 is no limit
	maxUses        int           // of a connection; 0 is no limit
	maxAge         time.Duration // limits the age of a connection that is kept; 0 is no limit

	onlyHTTP2       bool // all connections speak HTTP/2
	waitsForStreams bool // if no stream is free, instead of opening a connection
}

// pool keeps idle connections to many hosts. It limits connections, queues requests at the limits,
// and closes connections whose peers have closed them.
//
// A slot is the right to open a connection to a host: what get returns if no connection is idle.
//
// A connection that speaks HTTP/2 is in use while it has streams. Requests share it as long as it
// accepts more: see poolshare.go.
//
// A connection that becomes idle costs nothing at first. The exchange that takes it checks its
// socket, without waiting. Only a connection that stays idle is watched. On Linux, one epoll
// instance and one goroutine watch all idle sockets of a pool. Any other connection has a goroutine
// that reads from it. If a watched connection ends, or an unexpected byte arrives, it is closed at
// once.
//
// A pool is safe for concurrent use. The zero value with limits is ready; its settings must not
// change after the first use.
type pool struct {
	limits limits

	mu        sync.Mutex
	hosts     map[key]*host // with connections or waiting requests
	unwatched list          // idle connections that are not watched, the oldest first
	watched   list          // watched idle connections; all are older
	closing   bool          // closeIdle was called, and get was not called since
	timer     *time.Timer   // calls sweep
	sweepAt   time.Time     // when timer expires; zero if it does not run
	watcher   socketWatcher
}

// host holds the connections to one host. The pool's mu guards it.
type host struct {
	pool    *pool
	key     key
	active  int // slots, and connections in use
	idle    list
	shared  []*conn      // connections in use that may accept more streams
	opening int          // slots whose connections are expected to speak HTTP/2
	isHTTP2 bool         // the last connection that was opened speaks HTTP/2
	waiting []chan *conn // in the order of arrival; each channel has room for its connection
}

// get returns an idle connection to a host, a shared one, or a slot, whose Conn is nil. The caller
// must open a slot. get does not check the connection: see conn.hasInput. At the limit it waits. If
// ctx ends first, it returns the cause. If fresh is set, it closes an idle connection and returns
// its slot, but still shares connections. The caller must call keep, drop or StreamClosed on
// the result.
func (p *pool) get(ctx context.Context, k key, fresh bool) (*conn, error) {
	c, queue := p.takeOrWait(k)
	if queue != nil {
		select {
		case c = <-queue:
		case <-ctx.Done():
			p.stopWaiting(k, queue)
			return nil, context.Cause(ctx)
		}
	}
	if c.openErr != nil {
		return nil, c.openErr
	}
	if fresh && c.Conn != nil && c.h2 == nil {
		c.Close()
		c = &conn{host: c.host}
	}
	return c, nil
}

// takeOrWait returns a connection or slot. If the request must wait, it returns a channel that
// receives one.
func (p *pool) takeOrWait(k key) (*conn, chan *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closing = false
	h := p.hosts[k]
	if h == nil {
		h = &host{pool: p, key: k, isHTTP2: p.limits.onlyHTTP2}
		if p.hosts == nil {
			p.hosts = make(map[key]*host)
		}
		p.hosts[k] = h
	}
	if len(h.waiting) == 0 {
		if c := h.next(); c != nil {
			return c, nil
		}
	}
	queue := make(chan *conn, 1)
	h.waiting = append(h.waiting, queue)
	return nil, queue
}

// next returns a connection or slot for a request, or nil if it must wait. The caller holds mu.
func (h *host) next() *conn {
	l := &h.pool.limits
	isFull := l.maxConns > 0 && h.active >= l.maxConns || l.waitsForStreams && h.isHTTP2 && len(h.shared) > 0
	if c := h.takeStream(isFull && h.opening == 0); c != nil {
		return c
	}
	if isFull || h.isHTTP2 && l.maxUses != 1 && h.opening > 0 { // that may have a stream
		return nil
	}
	h.active++
	return h.takeIdle()
}

// isHTTP2 reports whether connections to a host are expected to speak HTTP/2.
func (p *pool) isHTTP2(k key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[k]
	return h != nil && h.isHTTP2
}

// stopWaiting removes queue from the waiting requests. If queue has received a connection in the
// meantime, stopWaiting passes it on.
func (p *pool) stopWaiting(k key, queue chan *conn) {
	p.mu.Lock()
	if h := p.hosts[k]; h != nil {
		if i := slices.Index(h.waiting, queue); i >= 0 {
			h.waiting = slices.Delete(h.waiting, i, i+1)
			p.mu.Unlock()
			return
		}
	}
	p.mu.Unlock()
	switch c := <-queue; {
	case c.openErr != nil:
	case c.h2 != nil:
		c.h2.Unreserve()
		c.StreamClosed()
	case c.Conn != nil:
		c.uses-- // keep counts one
		c.keep()
	default:
		c.drop()
	}
}

// replace closes an idle connection that get has returned. It returns another one, or its slot.
func (p *pool) replace(c *conn) *conn {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	return c.host.takeIdle()
}

// takeIdle returns the connection that became idle last, or a slot. The caller holds mu.
func (h *host) takeIdle() *conn {
	for c := h.idle.last; c != nil; c = h.idle.last {
		h.pool.markInUse(c)
		if c.h2 == nil || h.share(c) {
			return c
		}
		go c.Close() // it reports to the pool
	}
	return h.slot()
}

// markInUse removes an idle connection from its lists, and stops watching it. The caller holds mu.
func (p *pool) markInUse(c *conn) {
	c.host.idle.remove(c, hostList)
	if c.idleIn.remove(c, ageList); c.idleIn == &p.watched {
		p.unwatch(c)
	}
	c.idleIn = nil
}

// removeIfEmpty removes a host without connections and waiting requests. The caller holds mu.
func (p *pool) removeIfEmpty(h *host) {
	if h.active == 0 && h.idle.n == 0 && len(h.waiting) == 0 {
		delete(p.hosts, h.key)
	}
}

// release ends the use of a connection or slot. It returns what must be closed: the connection
// unless it is kept or passed on, or an idle one that makes room for it, or nil.
func (p *pool) release(c *conn, isUsable bool) (surplus *conn) {
	isUsable = isUsable && !c.countUse(&p.limits)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.releaseLocked(c, isUsable)
}

// releaseLocked is release without counting the use.
func (p *pool) releaseLocked(c *conn, isUsable bool) (surplus *conn) {
	h := c.host
	c.endOpening()
	if len(h.waiting) > 0 {
		if isUsable && (c.h2 == nil || h.share(c)) {
			h.serveFirst(c)
			return nil
		}
		h.serveFirst(h.slot())
		return c
	}
	h.active--
	if !isUsable || p.closing || p.limits.maxIdlePerHost >= 0 && h.idle.n >= p.limits.maxIdlePerHost {
		p.removeIfEmpty(h)
		return c
	}
	c.idleIn = &p.unwatched
	c.idleSince = c.opened.Add(time.Since(c.opened)) // reads one clock, and time.Now two
	h.idle.add(c, hostList)
	p.unwatched.add(c, ageList)
	if p.limits.maxIdle > 0 && p.unwatched.n+p.watched.n > p.limits.maxIdle {
		surplus = p.evict(p.oldest())
	}
	p.scheduleSweep(c.idleSince.Add(watchDelay))
	return surplus
}

// evict removes an idle connection from the pool. The caller holds mu, and closes the connection.
func (p *pool) evict(c *conn) *conn {
	p.markInUse(c)
	p.removeIfEmpty(c.host)
	return c
}

// evictAfter evicts the connections that have been idle for a time. The caller holds mu.
func (p *pool) evictAfter(d time.Duration) (all []*conn) {
	now := time.Now()
	for c := p.oldest(); c != nil && now.Sub(c.idleSince) >= d; c = p.oldest() {
		all = append(all, p.evict(c))
	}
	return all
}

// oldest returns the connection that became idle first, or nil. The caller holds mu.
func (p *pool) oldest() *conn { return cmp.Or(p.watched.first, p.unwatched.first) }

// closeIdle closes all idle connections, and those that are returned before the next get.
func (p *pool) closeIdle() {
	p.mu.Lock()
	p.closing = true
	all := p.evictAfter(0)
	p.stopWatching()
	p.mu.Unlock()
	closeAll(all)
}

func closeAll(all []*conn) {
	for _, c := range all {
		c.Close()
	}
}

// Count holds numbers of connections, and of requests that wait for one. Watched connections count
// as idle, too.
type Count struct{ Hosts, Active, Idle, Watched, Waiting int }

// count returns the current numbers.
func (p *pool) count() Count {
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

// list is a doubly linked list of connections, whose links are in the connections. Removing one
// from the middle takes constant time. The zero value is empty. An idle connection is in two lists.
type list struct {
	first, last *conn
	n           int
}

type node struct{ prev, next *conn }

// listKind selects which links of a connection a list uses.
type listKind uint8

const (
	hostList listKind = iota // the list of a host
	ageList                  // a list of the pool, in the order in which connections became idle
)

func (l *list) add(c *conn, w listKind) {
	c.nodes[w] = node{prev: l.last}
	if l.last != nil {
		l.last.nodes[w].next = c
	} else {
		l.first = c
	}
	l.last = c
	l.n++
}

// remove removes c, which is in the list.
func (l *list) remove(c *conn, w listKind) {
	at := c.nodes[w]
	if at.prev != nil {
		at.prev.nodes[w].next = at.next
	} else {
		l.first = at.next
	}
	if at.next != nil {
		at.next.nodes[w].prev = at.prev
	} else {
		l.last = at.prev
	}
	c.nodes[w] = node{}
	l.n--
}
