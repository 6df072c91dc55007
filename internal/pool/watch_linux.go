package pool

import (
	"time"

	"github.com/tarehq/tare/internal/poll"
)

// lingerFor is how long an epoll instance stays that has no socket to watch.
const watcherLinger = time.Second

// watch is the sockets of a pool that are watched. The pool's mu guards it.
type socketWatcher[K comparable, T any] struct {
	loop       *poll.Loop // nil if there is none
	sockets    map[int]*Conn[K, T]
	emptySince monotime // since when it has no socket
}

// watchSocket reports whether a socket is watched. It is not if the system refuses.
func (p *Pool[K, T]) watchSocket(c *Conn[K, T]) bool {
	w := &p.watcher
	if w.loop == nil {
		loop, err := poll.NewLoop()
		if err != nil {
			return false
		}
		w.loop, w.sockets = loop, make(map[int]*Conn[K, T])
		go p.runWatcher(loop)
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
	w := &p.watcher
	if c.probe == nil || w.sockets[c.probe.fd] != c {
		return
	}
	delete(w.sockets, c.probe.fd)
	_ = c.probe.raw.Control(func(fd uintptr) { _ = w.loop.Remove(int(fd)) })
	if len(w.sockets) == 0 {
		w.emptySince = p.now()
		p.scheduleSweep(w.emptySince + monotime(watcherLinger))
	}
}

// lingers returns when an epoll instance without sockets is to end, and ends one whose time it
// is.
func (p *Pool[K, T]) closeEmptyWatcher(now monotime) (at monotime, ok bool) {
	w := &p.watcher
	if w.loop == nil || len(w.sockets) > 0 {
		return 0, false
	}
	if at = w.emptySince + monotime(watcherLinger); now < at {
		return at, true
	}
	p.stopWatching()
	return 0, false
}

// stopWatching ends an epoll instance that has no sockets. The caller holds mu.
func (p *Pool[K, T]) stopWatching() {
	if w := &p.watcher; w.loop != nil && len(w.sockets) == 0 {
		_ = w.loop.Close()
		w.loop, w.sockets = nil, nil
	}
}

// wait closes the sockets to which something happens, until the loop is closed.
func (p *Pool[K, T]) runWatcher(loop *poll.Loop) {
	for {
		events, _, err := loop.Wait()
		if err != nil {
			return
		}
		for _, e := range events {
			p.checkSocket(e.ID)
		}
	}
}

// happened looks at a socket to which something may have happened: it may be another one by now
// that has its descriptor.
func (p *Pool[K, T]) checkSocket(fd int) {
	p.mu.Lock()
	c := p.watcher.sockets[fd]
	isClosed := c != nil && !c.probe.quiet()
	p.mu.Unlock()
	if isClosed {
		p.closeIfIdle(c)
	}
}
