package shard

import (
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/poll"
)

const (
	// outboxConns is how many connections' responses wait at most. The first of them waits for as
	// many handlers, each of which is expected to be quick.
	outboxConns = 8
	// outboxMax is how many bytes of a connection may wait. Copying more would cost more than it
	// saves.
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
	out   []byte // the responses
	items []outboxItem
	sent  int // items that were sent, or that another runner sends
	start int // offset in out of the next one
}

// outboxItem is the responses of a connection.
type outboxItem struct {
	conn        *shardConn
	end         int           // offset in out
	sendTimeout time.Duration // of the last response; 0 is no limit
	endsConn    bool          // the connection ends after them
	mayMove     bool          // another shard may take the connection
}

func (b *outbox) isEmpty() bool { return len(b.items) == 0 }
func (b *outbox) isFull() bool  { return len(b.items) >= outboxConns }

// add moves the output of c, which serves k, to the outbox.
func (b *outbox) add(c *exchange.Conn, k *shardConn, mayMove bool) {
	b.out = c.TakeOut(b.out)
	b.items = append(b.items, outboxItem{k, len(b.out), c.CurrentSendTimeout(), c.EndsOutput, mayMove})
}

// next returns the next item and its bytes.
func (b *outbox) next() (item outboxItem, out []byte, ok bool) {
	if b.sent == len(b.items) {
		return outboxItem{}, nil, false
	}
	item = b.items[b.sent]
	out = b.out[b.start:item.end]
	b.sent, b.start = b.sent+1, item.end
	return item, out, true
}

func (b *outbox) clear() {
	clear(b.items)
	b.out, b.items, b.sent, b.start = b.out[:0], b.items[:0], 0, 0
}

// mayDelay reports whether the responses in the runner's conn may wait until others have been
// served. The leader only then adds them to the outbox: until then it may lose the lead.
func (r *runner) mayDelay(k *shardConn) bool {
	c := r.conn
	return r.delays && r.token != 0 && k.tls == nil && len(c.Out) <= outboxMax && c.WriteErr == nil
}

// addDelayed adds the responses in the runner's conn to the outbox.
func (r *runner) addDelayed() {
	k := r.delayed
	r.shard.outbox.add(r.conn, k, r.mayMoveConn())
	r.delayed, k.servedBy = nil, nil
	r.detach()
}

// sendDelayed sends the responses in the runner's conn, because it has lost the lead.
func (r *runner) sendDelayed() {
	k := r.delayed
	r.delayed = nil
	r.serve(k, nil, 0)
}

// sendOutbox sends the responses that wait. It reports whether the runner still leads.
func (r *runner) sendOutbox() bool {
	b := &r.shard.outbox
	r.delays = false
	for {
		item, out, ok := b.next()
		if !ok {
			b.clear()
			return true
		}
		k, sent := item.conn, 0
		if !k.deadlinePassed(&k.writeDeadline) {
			sent = r.trySend(item, out)
		}
		if sent == len(out) && r.parkSent(item) {
			continue
		}
		// Its event has come, or the client does not read: serve it as if nothing had waited.
		c := r.conn
		c.Out, c.EndsOutput = append(c.Out, out[sent:]...), item.endsConn
		c.SetSendTimeout(item.sendTimeout)
		if !r.serveAsLeader(k, false) {
			return false
		}
	}
}

// trySend sends an item's bytes without waiting, and returns how many were sent.
func (r *runner) trySend(item outboxItem, out []byte) (sent int) {
	fd := int(item.conn.fd)
	if item.endsConn {
		sent, _ = poll.SendEnd(fd, out)
		return sent
	}
	sent, _ = poll.Send(fd, out) // if this fails, the next attempt does, too
	return sent
}

// parkSent makes the connection of an item wait for its next request, or closes it. It reports
// false if a runner must serve it.
func (r *runner) parkSent(item outboxItem) bool {
	k := item.conn
	if item.endsConn {
		_ = k.Close()
		return true
	}
	if k.addToLoop() != nil {
		return false
	}
	var deadline instant
	if timeout := k.config().Exchanges.IdleTimeout; timeout > 0 {
		deadline = r.reportedAt + instant(timeout)
	}
	k.setWaitDeadline(deadline)
	if to := r.shard.load.relief.Load(); to != nil && item.mayMove && !k.moveTo(to) {
		return false
	}
	if !k.park() {
		return false
	}
	r.closeIfEnding(k)
	return true
}
