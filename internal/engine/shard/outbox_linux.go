package shard

import "github.com/tarehq/tare/internal/poll"

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
	if k.endsOutput {
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
	if k.endsOutput {
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
