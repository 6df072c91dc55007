package fcgi

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"time"
)

// pool is the connections to one address. The transport's mu guards it.
type pool struct {
	at      address
	active  int         // connections in use or being opened
	idle    []idleConn  // the one used last is last
	waiting []chan turn // requests, the first first; each channel has room for its turn
	pruning bool        // a timer runs
}

type idleConn struct {
	net.Conn
	since time.Time
}

// turn is the permission to have a connection, and perhaps an idle one.
type turn struct {
	p  *pool
	nc net.Conn // nil if one must be opened
}

// connect returns a connection to an address, and whether it was used before. It waits for its
// turn. A fresh one takes the place of an idle one. Who gets it calls giveBack.
func (t *Transport) connect(ctx context.Context, at address, fresh bool) (now turn, reused bool, err error) {
	if now, err = t.await(ctx, at); err != nil {
		return turn{}, false, err
	}
	for now.nc != nil {
		if !fresh && alive(now.nc) {
			return now, true, nil
		}
		now.nc.Close()
		if now.nc = nil; !fresh {
			now.nc = t.another(now.p)
		}
	}
	if now.nc, err = t.dial(ctx, at); err != nil {
		t.giveBack(now.p, nil)
		return turn{}, false, err
	}
	return now, false, nil
}

func (t *Transport) dial(ctx context.Context, at address) (net.Conn, error) {
	dial := t.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	bounded, cancel := context.WithTimeout(ctx, cmp.Or(t.DialTimeout, defaultDialTimeout))
	defer cancel()
	nc, err := dial(bounded, at.network, at.addr)
	switch {
	case err == nil:
		return nc, nil
	case ctx.Err() != nil:
		return nil, causeOf(ctx)
	}
	return nil, fmt.Errorf("fcgi: cannot reach the application: %w", err)
}

// await waits for the turn of a request.
func (t *Transport) await(ctx context.Context, at address) (turn, error) {
	now, queue := t.enqueue(at)
	if queue == nil {
		return now, nil
	}
	select {
	case now = <-queue:
		return now, nil
	case <-ctx.Done():
		t.leave(now.p, queue)
		return turn{}, causeOf(ctx)
	}
}

// enqueue returns a turn or, if there is none, where it will come.
func (t *Transport) enqueue(at address) (turn, chan turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pools[at]
	if p == nil {
		p = &pool{at: at}
		if t.pools == nil {
			t.pools = make(map[address]*pool)
		}
		t.pools[at] = p
	}
	if t.MaxConns > 0 && p.active >= t.MaxConns {
		queue := make(chan turn, 1)
		p.waiting = append(p.waiting, queue)
		return turn{p: p}, queue
	}
	p.active++
	return turn{p, p.takeIdle()}, nil
}

// leave takes a request out of the queue. A turn that it has got nevertheless is given back.
func (t *Transport) leave(p *pool, queue chan turn) {
	t.mu.Lock()
	i := slices.Index(p.waiting, queue)
	if i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 {
		now := <-queue
		t.giveBack(now.p, now.nc)
	}
}

// another returns one more idle connection, or nil.
func (t *Transport) another(p *pool) net.Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return p.takeIdle()
}

func (p *pool) takeIdle() net.Conn {
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	nc := p.idle[n-1].Conn
	p.idle = slices.Delete(p.idle, n-1, n)
	return nc
}

// giveBack ends a turn. The connection can be used again; nil stands for one that was closed.
func (t *Transport) giveBack(p *pool, nc net.Conn) {
	t.mu.Lock()
	if len(p.waiting) > 0 {
		p.waiting[0] <- turn{p, nc}
		p.waiting = slices.Delete(p.waiting, 0, 1)
		t.mu.Unlock()
		return
	}
	p.active--
	if nc != nil && len(p.idle) < t.MaxIdleConns {
		p.idle = append(p.idle, idleConn{nc, time.Now()})
		t.prune(p)
		nc = nil
	}
	t.forget(p)
	t.mu.Unlock()
	if nc != nil {
		nc.Close()
	}
}

// forget drops a pool that has nothing. The caller holds mu.
func (t *Transport) forget(p *pool) {
	if p.active == 0 && len(p.idle) == 0 && len(p.waiting) == 0 && t.pools[p.at] == p {
		delete(t.pools, p.at)
	}
}

// prune sees to it that what is idle does not stay so for too long. The caller holds mu.
func (t *Transport) prune(p *pool) {
	if p.pruning || len(p.idle) == 0 {
		return
	}
	p.pruning = true
	timeout := cmp.Or(t.IdleConnTimeout, defaultIdleTimeout)
	time.AfterFunc(time.Until(p.idle[0].since.Add(timeout)), func() {
		t.mu.Lock()
		p.pruning = false
		old := p.takeOld(func(c idleConn) bool { return time.Since(c.since) >= timeout })
		t.prune(p)
		t.forget(p)
		t.mu.Unlock()
		closeAll(old)
	})
}

// takeOld takes those connections off the list that are old. The caller holds mu.
func (p *pool) takeOld(isOld func(idleConn) bool) (old []idleConn) {
	n := 0
	for n < len(p.idle) && isOld(p.idle[n]) {
		n++
	}
	old = slices.Clone(p.idle[:n])
	p.idle = slices.Delete(p.idle, 0, n)
	return old
}

func closeAll(all []idleConn) {
	for _, c := range all {
		c.Close()
	}
}
