package engine

import (
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tarehq/tare/internal/poll"
)

// group is the shards of a server, one for each P, and the socks on them.
type group struct {
	server     *Server
	start      time.Time
	socks      table
	predictor  predictor
	watcher    watcher
	live       atomic.Int64  // socks
	next       atomic.Uint32 // shard that gets the next sock
	sweepNow   chan struct{}
	sweepEvery atomic.Int64 // a time.Duration; 0 until there is a listener

	shards  atomic.Pointer[[]*shard] // is replaced when shards are added, and none is ever removed
	active  atomic.Int32             // shards that get new socks: the first ones, one for each P
	growing sync.Mutex               // held to add shards and homes, and to stop
	done    bool                     // stopped is closed
	stopped chan struct{}
}

func newGroup(server *Server) (*group, error) {
	g := &group{server: server, start: time.Now().Add(-1), stopped: make(chan struct{})}
	g.watcher.bell = make(chan struct{}, 1)
	g.sweepNow = make(chan struct{}, 1)
	g.shards.Store(new([]*shard))
	if err := g.grow(); err != nil {
		g.stop()
		return nil, err
	}
	go g.watcher.run(g)
	go g.sweep()
	return g, nil
}

// allShards returns the shards that there are now.
func (g *group) allShards() []*shard { return *g.shards.Load() }

// grow adds shards if there are more Ps than shards by now: GOMAXPROCS follows the limits of a
// container while the program runs. If there are fewer Ps the last shards get no new sockets.
func (g *group) grow() error {
	want := runtime.GOMAXPROCS(0)
	if int(g.active.Load()) == want {
		return nil
	}
	g.growing.Lock()
	defer g.growing.Unlock()
	if g.done {
		return nil
	}
	shards := slices.Clone(g.allShards())
	for len(shards) < want {
		s, err := newShard(g)
		if err != nil {
			return err
		}
		go newRunner(s).run(job{})
		shards = append(shards, s)
		g.shards.Store(new(slices.Clone(shards)))
	}
	g.active.Store(int32(want))
	return nil
}

// homeOfNext returns the home of a listener's next sock.
func (g *group) homeOfNext(p *plan) *home {
	i := int(g.next.Add(1) % uint32(g.active.Load()))
	if homes := p.homes.Load(); homes != nil && i < len(*homes) {
		return (*homes)[i]
	}
	g.growing.Lock()
	defer g.growing.Unlock()
	var homes []*home
	if old := p.homes.Load(); old != nil {
		homes = slices.Clone(*old)
	}
	for _, s := range g.allShards()[len(homes):] {
		homes = append(homes, &home{p, s})
	}
	p.homes.Store(&homes)
	return homes[i]
}

// socketAcceptor returns what accepts on l for shards, or nil if l's connections
// have to take the portable path: because they are no sockets, or because the
// server's hooks are to be shown the net.Conn of each.
func (s *Server) socketAcceptor(p *plan, l net.Listener) func() error {
	switch l.(type) {
	case *net.TCPListener, *net.UnixListener:
	default:
		return nil
	}
	if s.settings.ConnContext != nil || s.settings.ConnState != nil {
		return nil
	}
	g, err := s.shardGroup()
	if err != nil {
		s.logf("http: no shards: %v; serving with a goroutine for each connection", err)
		return nil
	}
	g.sweepAtLeast(p)
	return func() error {
		nc, err := l.Accept()
		if err == nil {
			return g.adopt(p, nc)
		}
		if outOfDescriptors(err) {
			g.shed()
		}
		return err
	}
}

func (g *group) now() instant { return instant(time.Since(g.start)) }

func (g *group) instant(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	return max(1, instant(t.Sub(g.start))) // also for a time long past
}

func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// adopt puts a connection that package net has accepted on a shard, and leaves
// nothing of it with package net.
func (g *group) adopt(p *plan, nc net.Conn) error {
	defer nc.Close()
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil // it has gone already
	}
	remote := ""
	if a := nc.RemoteAddr(); a != nil {
		remote = a.String()
	}
	var fd int
	var dupErr error
	err = raw.Control(func(old uintptr) {
		if fd, dupErr = poll.Dup(int(old)); outOfDescriptors(dupErr) {
			g.shed()
			fd, dupErr = poll.Dup(int(old))
		}
	})
	if err != nil {
		return nil
	}
	if dupErr != nil {
		return &net.OpError{Op: "accept", Net: p.listener.Addr().Network(), Addr: p.listener.Addr(), Err: os.NewSyscallError("fcntl", dupErr)}
	}
	g.add(p, fd, remote)
	return nil
}

// shardGroup returns the server's shards and starts them if need be.
func (s *Server) shardGroup() (*group, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shards != nil {
		return s.shards, nil
	}
	g, err := newGroup(s)
	if err == nil {
		s.shards = g
	}
	return g, err
}

// add puts a new connection on a shard.
func (g *group) add(p *plan, fd int, remote string) {
	h := g.homeOfNext(p)
	k := newSock(h, fd, remote)
	g.server.accepted.Add(1)
	if g.live.Add(1) == 1 {
		ring(g.sweepNow)
	}
	k.waitUntil(k.opened + instant(p.headTime)) // before anybody can find it
	if g.server.closing.Load() || !g.socks.put(fd, k) {
		_ = k.Close()
		return
	}
	if err := h.shard.loop.Add(fd, fd); err != nil {
		g.server.logf("http: %v: connection from %s closed", err, k.remote)
		_ = k.Close()
	}
}

// gone is called when a sock's descriptor was closed.
func (g *group) gone() {
	last := g.live.Add(-1) == 0
	if last {
		g.stopIfDone()
	}
	g.server.noteClosed()
	if last {
		g.server.endIfUnused()
	}
}

// open counts the socks.
func (g *group) open() int64 {
	if g == nil {
		return 0
	}
	return g.live.Load()
}

// stopIfDone ends the shards of a server that is closing, once nothing is left on
// them.
func (g *group) stopIfDone() {
	if g.server.closing.Load() && g.live.Load() == 0 {
		g.stop()
	}
}

// stop ends the shards. Nothing is on them any more.
func (g *group) stop() {
	if g == nil {
		return
	}
	g.growing.Lock()
	defer g.growing.Unlock()
	if g.done {
		return
	}
	g.done = true
	close(g.stopped)
	for _, s := range g.allShards() {
		s.stop()
	}
}

// How late a sock that waits too long may be closed: a part of what it may wait, and
// no less than a sweep of all socks is worth.
const (
	sweepPart  = 8
	sweepOften = 10 * time.Millisecond
)

// sweepAtLeast has the sweeper keep up with a listener's bounds.
func (g *group) sweepAtLeast(p *plan) {
	shortest := p.headTime
	if p.idle > 0 {
		shortest = min(shortest, p.idle)
	}
	every := int64(max(sweepOften, shortest/sweepPart))
	for old := g.sweepEvery.Load(); old == 0 || every < old; old = g.sweepEvery.Load() {
		if g.sweepEvery.CompareAndSwap(old, every) {
			ring(g.sweepNow)
		}
	}
}

// sweep closes the socks that have waited too long. A walk over all of them now and
// then costs less than a timer for each: nothing at all for each request, and no
// memory. While there are none it sleeps.
func (g *group) sweep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failed := false; ; {
		if err := g.grow(); err != nil && !failed {
			g.server.logf("http: cannot follow GOMAXPROCS: %v; serving with %d loops", err, len(g.allShards()))
			failed = true
		}
		select {
		case <-g.stopped:
			return
		case <-g.sweepNow:
		case <-timer.C:
			now := g.now()
			g.socks.each(func(k *sock) { k.expire(now) })
		}
		if every := g.sweepEvery.Load(); every > 0 && g.live.Load() > 0 {
			timer.Reset(time.Duration(every))
		}
	}
}

// closeWaiting closes the socks that wait for a request, new ones only if they have
// for a while, and returns how many there are in all.
func (g *group) closeWaiting() int {
	if g == nil {
		return 0
	}
	g.socks.each(func(k *sock) {
		if k.claimForClosing() {
			_ = k.Close()
		}
	})
	g.stopIfDone()
	return int(g.live.Load())
}

// closeAll ends all connections. Those whose handlers run are closed when these
// return.
func (g *group) closeAll() {
	if g == nil {
		return
	}
	g.socks.each(func(k *sock) {
		if k.state.CompareAndSwap(waiting, dead) {
			_ = k.Close()
			return
		}
		k.kill()
	})
	g.stopIfDone()
}

// shed closes the sock that has waited longest among some, to make room for a new
// one when descriptors have run out.
func (g *group) shed() {
	const sample = 128
	var longest *sock
	var waited time.Duration
	n := 0
	g.socks.each(func(k *sock) {
		if n++; n > sample || k.state.Load() != waiting {
			return
		}
		if w := k.quietFor(); longest == nil || w > waited {
			longest, waited = k, w
		}
	})
	if longest != nil && longest.state.CompareAndSwap(waiting, dead) {
		_ = longest.Close()
	}
}

// table finds socks by descriptor. The kernel reuses descriptors, so a loop may ask
// for one that another sock has by now: that sock is then looked at for nothing.
type table struct {
	pages [tablePages]atomic.Pointer[page]
}

const (
	tablePages = 1 << 12
	pageSocks  = 1 << 10
)

type page [pageSocks]atomic.Pointer[sock]

// put reports false if the table has no place for the descriptor.
func (t *table) put(fd int, k *sock) bool {
	if fd >= tablePages*pageSocks {
		return false
	}
	slot := &t.pages[fd/pageSocks]
	for slot.Load() == nil {
		slot.CompareAndSwap(nil, new(page))
	}
	slot.Load()[fd%pageSocks].Store(k)
	return true
}

func (t *table) at(fd int) *sock {
	if p := t.pages[fd/pageSocks].Load(); p != nil {
		return p[fd%pageSocks].Load()
	}
	return nil
}

func (t *table) remove(fd int, k *sock) {
	if p := t.pages[fd/pageSocks].Load(); p != nil {
		p[fd%pageSocks].CompareAndSwap(k, nil)
	}
}

func (t *table) each(f func(*sock)) {
	for i := range t.pages {
		p := t.pages[i].Load()
		if p == nil {
			continue
		}
		for j := range p {
			if k := p[j].Load(); k != nil {
				f(k)
			}
		}
	}
}
