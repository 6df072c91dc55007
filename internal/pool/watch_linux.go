package pool

import (
	"time"

	"github.com/tarehq/tare/internal/poll"
)

// lingerFor is how long an epoll instance stays that has no socket to watch.
const lingerFor = time.Second

// watch is the sockets of a pool that are watched. The pool's mu guards it.
type watch[K comparable, T any] struct {
	loop    *poll.Loop // nil if there is none
	sockets map[int]*Conn[K, T]
	empty   moment // since when it has no socket
}

// watchSocket reports whether a socket is watched. It is not if the system refuses.
func (p *Pool[K, T]) watchSocket(c *Conn[K, T]) bool {
	w := &p.watch
	if w.loop == nil {
		loop, err := poll.NewLoop()
		if err != nil {
			return false
		}
		w.loop, w.sockets = loop, make(map[int]*Conn[K, T])
		go p.wait(loop)
	}
	watched := false
	_ = c.probe.raw.Control(func(fd uintptr) {
		if watched = w.loop.Add(int(fd), int(fd)) == nil; watched {
			c.probe.fd = int(fd)
			w.sockets[int(fd)] = c
		}
	})
	return watched
}

// unwatch ends that. The socket may be about to be closed.
func (p *Pool[K, T]) unwatch(c *Conn[K, T]) {
	w := &p.watch
	if c.probe == nil || w.sockets[c.probe.fd] != c {
		return
	}
	delete(w.sockets, c.probe.fd)
	_ = c.probe.raw.Control(func(fd uintptr) { _ = w.loop.Remove(int(fd)) })
	if len(w.sockets) == 0 {
		w.empty = p.now()
		p.arm(w.empty + moment(lingerFor))
	}
}

// lingers returns when an epoll instance without sockets is to end, and ends one whose time it
// is.
func (p *Pool[K, T]) lingers(now moment) (at moment, ok bool) {
	w := &p.watch
	if w.loop == nil || len(w.sockets) > 0 {
		return 0, false
	}
	if at = w.empty + moment(lingerFor); now < at {
		return at, true
	}
	p.stopWatching()
	return 0, false
}

// stopWatching ends an epoll instance that has no sockets. The caller holds mu.
func (p *Pool[K, T]) stopWatching() {
	if w := &p.watch; w.loop != nil && len(w.sockets) == 0 {
		_ = w.loop.Close()
		w.loop, w.sockets = nil, nil
	}
}

// wait closes the sockets to which something happens, until the loop is closed.
func (p *Pool[K, T]) wait(loop *poll.Loop) {
	for {
		events, _, err := loop.Wait()
		if err != nil {
			return
		}
		for _, e := range events {
			p.happened(e.ID)
		}
	}
}

// happened looks at a socket to which something may have happened: it may be another one by now
// that has its descriptor.
func (p *Pool[K, T]) happened(fd int) {
	p.mu.Lock()
	c := p.watch.sockets[fd]
	stale := c != nil && !c.probe.quiet()
	p.mu.Unlock()
	if stale {
		p.evict(c)
	}
}
