package shard

import (
	"github.com/tarehq/tare/internal/poll"
)

const (
	// outboxConns is how many connections' responses wait at most. The first of them waits for as
	// many handlers, each of which is expected to be quick.
	outboxConns = 8
	// outboxMax is how many bytes of a connection may wait.
	outboxMax = 4 << 10
)

// outbox holds the complete responses of connections that the leader has served in this turn. The
// leader sends them one after another, before it waits for events. A client that serves several of
// them, such as a proxy or a load generator, is then woken for the first and finds the others when
// it looks again. And neither the handlers nor the kernel's network code evict each other from the
// caches. It gains 2 to 6 % of a small request with 64 connections on the loopback.
//
// A response waits only if another connection has an event. It is served until it was sent, so
// that no other goroutine closes it. The outbox belongs to the leader while that serves nothing. If
// the lead is taken from a leader in a handler, the new leader begins with the outbox.
type outbox struct {
	conns []*shardConn
	sent  int // how many of them were sent, or are served
}

// mayDelay reports whether k's responses may wait until others have been served. The leader only
// then adds them to the outbox: until then it may lose the lead.
func (r *runner) mayDelay(k *shardConn) bool {
	c := k.conn
	return r.delays && r.leader.IsServing() && k.tls == nil && len(c.Out) <= outboxMax && c.WriteErr == nil
}

// sendOutbox sends the responses that wait. It reports whether the runner still leads.
func (r *runner) sendOutbox() bool {
	b := &r.shard.outbox
	r.delays = false
	for b.sent < len(b.conns) {
		k := b.conns[b.sent]
		b.sent++
		// If its event has come, or the client does not read, it is served as if nothing had waited.
		if (!k.trySendOut() || !r.parkSent(k)) && !r.serveAsLeader(k, false) {
			return false
		}
	}
	clear(b.conns)
	b.conns, b.sent = b.conns[:0], 0
	return true
}

// trySendOut sends the output without waiting. It reports whether all was sent.
func (k *shardConn) trySendOut() bool {
	c := k.conn
	if k.deadlinePassed(waitOutput) {
		return false
	}
	sent := c.Gate.Open()
	n := 0
	if c.EndsOutput {
		n, _ = poll.SendEnd(int(k.fd), c.Out[sent:])
	} else {
		n, _ = poll.Send(int(k.fd), c.Out[sent:]) // if this fails, the next attempt does, too
	}
	c.DropSent(sent + n)
	return len(c.Out) == 0
}

// parkSent makes a connection wait for its next request, or closes it. It reports false if a runner
// must serve it.
func (r *runner) parkSent(k *shardConn) bool {
	if k.conn.EndsOutput {
		k.giveBack()
		_ = k.Close()
		return true
	}
	if k.addToLoop() != nil || !r.park(k, true) {
		return false
	}
	r.closeIfEnding(k)
	return true
}
