package shard

import (
	"errors"
	"syscall"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
)

func (g *Group) allShards() []*shard { return g.shards.Load().all }

// chooseShard returns the shard of the next connection that package net has accepted.
func (g *Group) chooseShard() *shard {
	list := g.shards.Load()
	return list.all[g.nextShard.Add(1)%uint32(list.active)]
}

func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// connGone is called after a connection's descriptor was closed.
func (g *Group) connGone() {
	if g.openConns.Add(-1) == 0 {
		g.unused()
	}
	g.server.SignalClosed()
}

// Open returns how many connections are open.
func (g *Group) Open() int64 {
	if g == nil {
		return 0
	}
	return g.openConns.Load()
}

// Stop stops the shards. No connection is left on them.
func (g *Group) Stop() {
	if g == nil {
		return
	}
	g.growing.Lock()
	defer g.growing.Unlock()
	if g.isStopped {
		return
	}
	g.isStopped = true
	close(g.stopped)
	g.sweeper.Stop()
	for _, s := range g.allShards() {
		s.stop()
	}
}

// CloseIdle closes the connections that wait for a request, new ones only after NewGrace. It
// returns how many connections are left.
func (g *Group) CloseIdle() int {
	if g == nil {
		return 0
	}
	g.conns.each(func(k *shardConn) {
		if !k.closeIfIdle() && k.awaitsTLS() && time.Duration(g.now()-k.opened) > exchange.NewGrace {
			k.shutdown()
		}
	})
	return int(g.openConns.Load())
}

// CloseAll closes all connections. Those whose handlers run are closed when the handlers return.
func (g *Group) CloseAll() {
	if g == nil {
		return
	}
	g.conns.each(func(k *shardConn) {
		if !k.closeWaiting() {
			k.shutdown() // its runner closes it
		}
	})
}

// MakeRoom closes a connection if an error means that descriptors have run out. g may be nil.
func (g *Group) MakeRoom(err error) {
	if g != nil && outOfDescriptors(err) {
		g.shed()
	}
}

// shed makes room for a new connection when descriptors have run out. It ends the one that has
// lingered longest, if any does, and otherwise closes an idle one.
func (g *Group) shed() {
	var oldest *shardConn
	var since instant
	g.lingering.Range(func(conn, began any) bool {
		if oldest == nil || began.(instant) < since {
			oldest, since = conn.(*shardConn), began.(instant)
		}
		return true
	})
	if oldest == nil {
		g.shedIdle()
		return
	}
	g.lingering.Delete(oldest) // so that the next call ends another one
	oldest.shutdown()
}

// shedIdle closes the connection that has been quiet longest among a sample of those that wait for
// a request. Each call takes another sample. Without TLS, a request that has arrived and waits for
// a busy shard is not lost. With TLS, unread bytes may be a part of a first message, whose rest
// never comes.
func (g *Group) shedIdle() {
	const sample = 128
	var longest *shardConn
	var waited time.Duration
	n := 0
	g.shedding.Lock()
	defer g.shedding.Unlock()
	for fd, k := range g.conns.from(g.shedFrom) {
		if !k.state.is(stateWaiting) {
			continue
		}
		if h := k.session.Load(); h != nil && !h.session.IsIdle() {
			continue
		}
		if w := k.quietFor(); (longest == nil || w > waited) && (k.tls != nil || k.isQuiet()) {
			longest, waited = k, w
		}
		if n++; n == sample {
			g.shedFrom = fd + 1
			break
		}
	}
	if longest != nil {
		longest.closeWaiting()
	}
}
