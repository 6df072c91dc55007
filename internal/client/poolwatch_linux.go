package client

import (
	"time"

	"github.com/tarehq/tare/internal/poll"
)

// watcherLinger is how long an epoll instance without sockets is kept. A busy pool watches single
// connections for moments: an instance for each took 5 % of the CPU time of a proxied request.
const watcherLinger = time.Second

// socketWatcher watches sockets of a pool with an epoll instance. The pool's mu guards it.
type socketWatcher struct {
	loop       *poll.Loop // nil if there is no epoll instance
	sockets    map[int]*conn
	emptySince time.Time // when the last socket was removed
}

// watchSocket starts to watch a socket. It reports false if the system rejects that.
func (p *pool) watchSocket(c *conn) bool {
	w := &p.watcher
	if w.loop == nil {
		loop, err := poll.NewLoop()
		if err != nil {
			return false
		}
		w.loop, w.sockets = loop, make(map[int]*conn)
		go p.runWatcher(loop)
	}
	watched := false
	_ = c.probe.raw.Control(func(fd uintptr) {
		if watched = w.loop.Add(int(fd), int(fd), 0) == nil; watched {
			c.probe.fd = int(fd)
			w.sockets[int(fd)] = c
		}
	})
	return watched
}

// unwatch stops watching a socket, which may be about to be closed.
func (p *pool) unwatch(c *conn) {
	w := &p.watcher
	if c.probe == nil || w.sockets[c.probe.fd] != c {
		return
	}
	delete(w.sockets, c.probe.fd)
	_ = c.probe.raw.Control(func(fd uintptr) { _ = w.loop.Remove(int(fd)) })
	if len(w.sockets) == 0 {
		w.emptySince = time.Now()
		p.scheduleSweep(w.emptySince.Add(watcherLinger))
	}
}

// closeEmptyWatcher closes an epoll instance that has had no sockets for watcherLinger. If it must
// be kept longer, closeEmptyWatcher returns until when.
func (p *pool) closeEmptyWatcher(now time.Time) (at time.Time, ok bool) {
	w := &p.watcher
	if w.loop == nil || len(w.sockets) > 0 {
		return at, false
	}
	if at = w.emptySince.Add(watcherLinger); now.Before(at) {
		return at, true
	}
	p.stopWatching()
	return at, false
}

// stopWatching closes an epoll instance without sockets. The caller holds mu.
func (p *pool) stopWatching() {
	if w := &p.watcher; w.loop != nil && len(w.sockets) == 0 {
		_ = w.loop.Close()
		w.loop, w.sockets = nil, nil
	}
}

// runWatcher closes connections whose sockets become readable, until the loop is closed.
func (p *pool) runWatcher(loop *poll.Loop) {
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

// checkSocket closes the connection of a descriptor if it is not quiet. The descriptor may belong
// to another socket by now, and so the socket is checked again.
func (p *pool) checkSocket(fd int) {
	p.mu.Lock()
	c := p.watcher.sockets[fd]
	isClosed := c != nil && !c.probe.quiet()
	p.mu.Unlock()
	if isClosed {
		p.closeIfIdle(c)
	}
}
