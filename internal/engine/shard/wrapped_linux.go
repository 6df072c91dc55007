package shard

import "net"

// A connection of a wrapped listener is a PlainConn. Its shard has a duplicate of the socket, and
// replaces the connection of package net beneath the wrapper by a hookConn. So Close, deadlines and
// addresses of the wrapper work as before. When the connection has ended, the shard calls Close of
// the wrapper. A handler that hijacks the connection receives the wrapper, above a connection of
// package net again.

// replacedConn is what a hookConn keeps of the connection that it has replaced.
type replacedConn struct {
	wrapper       PlainConn
	local, remote net.Addr
}

// wrapper returns the connection as its listener has returned it, or nil if that is not wrapped.
func (k *shardConn) wrapper() net.Conn {
	if h := k.hooks(); h != nil && h.below != nil {
		return h.below.wrapper
	}
	return nil
}

// AdoptWrapped puts a connection of the settings' listener on a shard. It reports false if the
// connection beneath is not a socket of package net, or if descriptors have run out.
func (g *Group) AdoptWrapped(p *Config, w PlainConn) bool {
	g.prepareWrapped(p)
	remote := ""
	if a := w.RemoteAddr(); a != nil {
		remote = a.String()
	}
	k := g.replaceBeneath(p, w, w, remote)
	if k == nil {
		return false
	}
	g.announceAndPut(k)
	return true
}

// prepareWrapped prepares the settings of a wrapped listener.
func (g *Group) prepareWrapped(p *Config) {
	g.growing.Lock()
	defer g.growing.Unlock()
	if p.isWrapped {
		return
	}
	p.isWrapped = true
	p.lingers = true // each connection may have an option of its own
	if p.TLS != nil {
		p.TLS = withoutTurns(p.TLS)
	}
	g.sweepFor(p)
}

// replaceBeneath replaces the innermost connection beneath w, which outer wraps or is. It returns
// nil if that is not a socket of package net.
func (g *Group) replaceBeneath(p *Config, outer, w PlainConn, remote string) (k *shardConn) {
	w.ReplaceConn(func(beneath net.Conn) net.Conn {
		switch nc := beneath.(type) {
		case *net.TCPConn, *net.UnixConn:
			if k = g.takeSocket(p, outer, nc, remote); k != nil {
				return k.hooks()
			}
		case PlainConn:
			k = g.replaceBeneath(p, outer, nc, remote)
		}
		return beneath
	})
	return k
}

// takeSocket makes a connection of a socket of package net, which it closes. It returns nil if it
// cannot.
func (g *Group) takeSocket(p *Config, outer PlainConn, nc net.Conn, remote string) *shardConn {
	fd, _ := g.duplicateSocket(nc)
	if fd < 0 {
		return nil
	}
	k := newShardConn(g.nextPlacement(p), fd, remote)
	h := k.hooks()
	if h == nil {
		place := k.place.Load()
		h = newHookConn(k, p)
		k.place.Store(&placement{place.config, place.shard, h})
	}
	h.below = &replacedConn{outer, nc.LocalAddr(), nc.RemoteAddr()}
	if k.tls == nil {
		h.public = outer
	}
	_ = nc.Close()
	return k
}
