package shard

import (
	"context"
	"net"
	"syscall"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/poll"
)

// Adopt puts a socket of package net on a shard, and closes nc. ctx is the parent of the requests'
// contexts. Adopt reports false, and leaves nc as it is, if nc is another connection or if
// descriptors have run out.
func (g *Group) Adopt(p *Config, nc net.Conn, ctx context.Context) bool {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
	default:
		return false
	}
	g.prepare(p)
	isAdopted, _ := g.adopt(p, nc, ctx)
	return isAdopted
}

// prepare completes the settings of a listener before its first connection.
func (g *Group) prepare(p *Config) {
	p.preparing.Do(func() {
		p.conns = exchange.NewConns(p.Exchanges, inSize, true)
		p.lingers = true // each connection may have an option of its own
		if secure := p.Exchanges.TLS; secure != nil {
			p.tls = withoutTurns(secure)
		}
		g.sweepFor(p)
	})
}

// adopt duplicates the descriptor of a connection of package net and closes nc, unless that fails.
// It reports a lack of descriptors even if closing an idle connection has freed one, as if package
// net had not been able to accept. ctx may be nil.
func (g *Group) adopt(p *Config, nc net.Conn, ctx context.Context) (isAdopted bool, err error) {
	raw, closed := nc.(syscall.Conn).SyscallConn()
	if closed != nil {
		return false, nil
	}
	fd, remote := -1, ""
	if a := nc.RemoteAddr(); a != nil {
		remote = a.String()
	}
	_ = raw.Control(func(old uintptr) {
		if fd, err = poll.Dup(int(old)); outOfDescriptors(err) {
			g.shedIdle()
			fd, _ = poll.Dup(int(old))
		}
	})
	if fd < 0 {
		return false, err
	}
	place := g.nextPlacement(p)
	if ctx != nil {
		place = &placement{p, place.shard, ctx}
	}
	k := newShardConn(place, fd, remote)
	_ = nc.Close()
	if g.put(k) {
		k.addOrClose()
	}
	return true, err
}
