package shard

import (
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
)

// How late an expired connection may be closed: a fraction of its timeout, and no less than
// minSweepInterval, because each sweep visits all connections.
const (
	sweepFraction    = 8
	minSweepInterval = 10 * time.Millisecond
)

// sweepFor makes sweeps frequent enough for a listener's timeouts.
func (g *Group) sweepFor(p *Config) {
	shortest := min(p.Exchanges.HeadTimeout, p.Exchanges.HandshakeTimeout)
	for _, limit := range []time.Duration{p.HTTP2.SendLimit(), p.HTTP2.SendPingTimeout, p.Exchanges.IdleTimeout} {
		if limit > 0 {
			shortest = min(shortest, limit)
		}
	}
	every := int64(max(minSweepInterval, shortest/sweepFraction))
	for old := g.sweepEvery.Load(); old == 0 || every < old; old = g.sweepEvery.Load() {
		if g.sweepEvery.CompareAndSwap(old, every) {
			exchange.Signal(g.sweepSoon)
		}
	}
}

// sweep closes the connections that have waited too long. Visiting all of them at intervals costs
// less than a timer for each: nothing for each request, and no memory. While there are no
// connections it sleeps.
func (g *Group) sweep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failed := false; ; {
		if err := g.grow(); err != nil && !failed {
			g.server.Logf("http: cannot follow GOMAXPROCS: %v; serving with %d loops", err, len(g.allShards()))
			failed = true
		}
		select {
		case <-g.stopped:
			return
		case <-g.sweepSoon:
		case <-timer.C:
			now := g.now()
			g.conns.each(func(k *shardConn) { k.expire(now) })
		}
		// put increments openConns before it reads noSweep, so that one of the two sees the other.
		g.noSweep.Store(true)
		if every := g.sweepEvery.Load(); every > 0 && g.openConns.Load() > 0 {
			g.noSweep.Store(false)
			timer.Reset(time.Duration(every))
		}
	}
}
