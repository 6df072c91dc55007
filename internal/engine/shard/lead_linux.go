package shard

import (
	"runtime"
	"time"

	"github.com/tarehq/tare/internal/engine/reuse"
	"github.com/tarehq/tare/internal/poison"
	"github.com/tarehq/tare/internal/poll"
)

// work makes a runner do a job, and returns the time about when it is done. If a handler ends the
// goroutine of a leader by Goexit, another runner leads.
func (s *shard) work(r *runner, j job) time.Time {
	r.shard = s
	defer r.MayBlock()
	switch {
	case j.stream != nil:
		r.timeStream(j.stream, j.slot, nil, 0)
		j.stream.Settle()
	case j.conn == nil:
		r.lead()
	case j.conn.session.Load() != nil:
		r.serveSession(j.conn.session.Load(), false)
	default:
		r.serve(j.conn, j.request, j.slot)
	}
	// Reading the clock would take 1 % of the CPU time of a request that is handed off.
	return s.group.epoch.Add(time.Duration(max(r.endedAt, r.reportedAt)))
}

// lead serves the loop's events until another runner leads, or until the shard was stopped. It
// first continues the turn of a session, if the last leader had to leave it.
func (r *runner) lead() {
	s := r.shard
	r.leader.Follow(s.lead)
	r.reportedAt = s.group.now()
	began := r.reportedAt
	if h := s.turnOf.Swap(nil); h != nil && h.session.Turn.TakeOver() && !r.serveAsLeader(h.conn, true) {
		return
	}
	if !r.sendOutbox() { // what the last leader has left has waited long enough
		return
	}
	for r.serveEvents() && r.waitEvents() {
		if r.reportedAt-began > instant(reuse.MaxAge) {
			r.leader.Resign()
			return
		}
	}
}

// waitEvents waits for events. It reports false if the shard was stopped.
func (r *runner) waitEvents() bool {
	s := r.shard
	now := s.group.now()
	s.load.endTurn(now)
	if now-s.lastYield > instant(yieldAfter) {
		s.loop.Yield()
		now = s.group.now()
		s.lastYield = now
	}
	events, waited, err := s.loop.Wait()
	if err != nil {
		return false
	}
	if waited {
		now = s.group.now()
		s.lastYield = now
	}
	r.reportedAt, s.events, s.nextEvent, s.slept = now, events, 0, waited
	s.turns.Add(1)
	s.load.beginTurn(now)
	return true
}

// serveEvents serves the events that the loop has reported. It reports whether the runner still
// leads.
func (r *runner) serveEvents() bool {
	s := r.shard
	for s.nextEvent < len(s.events) {
		e := s.events[s.nextEvent]
		s.nextEvent++
		r.eventsLeft = len(s.events) - s.nextEvent
		if e.ID < 0 {
			if a, ok := s.group.acceptors.Load(^e.ID); ok {
				a.(*acceptor).acceptOn(s)
			}
			continue
		}
		k := s.connOf(e)
		if k == nil || !k.claim(e) || s.beginsTLS(k) {
			continue
		}
		r.delays = r.eventsLeft > 0 || s.outbox.count > 0
		if !r.serveAsLeader(k, false) {
			return false
		}
		if s.outbox.count == outboxConns && !r.sendOutbox() {
			return false
		}
		if r.handOffs >= handOffBatch && !r.startHandOffs() {
			return false
		}
	}
	if r.handOffs > 0 {
		return r.startHandOffs()
	}
	return r.sendOutbox()
}

// startHandOffs yields to the runners that have received requests. It reports whether the runner
// still leads.
func (r *runner) startHandOffs() bool {
	r.handOffs = 0
	if !r.sendOutbox() {
		return false
	}
	runtime.Gosched()
	return true
}

// connOf returns the connection that an event is about. It returns nil if that was closed, even if
// its descriptor belongs to another one by now, or has moved to another shard.
func (s *shard) connOf(e poll.Event) *shardConn {
	k := s.group.conns.at(e.ID)
	if k == nil || k.tag() != e.Tag || k.shard() != s {
		return nil
	}
	return k
}

// delay moves k's output to the outbox and gives its conn back: the next connection finds it in the
// processor's caches.
func (r *runner) delay(k *shardConn) {
	k.openGate()
	b, c := &r.shard.outbox, k.conn
	w := &b.waiting[b.count]
	b.count++
	w.conn, w.sendTimeout = k, c.CurrentSendTimeout()
	w.out, c.Out = c.Out, w.out[:0]
	k.giveBack() // drops a buffer that has held a large response
}

// sendOutbox sends the responses that wait. It reports whether the runner still leads.
func (r *runner) sendOutbox() bool {
	b := &r.shard.outbox
	r.delays = false
	for b.sent < b.count {
		w := &b.waiting[b.sent]
		b.sent++
		k := w.conn
		w.conn = nil
		n := k.trySendOut(w.out)
		if n == len(w.out) && r.parkSent(k) {
			continue
		}
		// The client does not read, or its event has come: it is served as if nothing had waited.
		if n < len(w.out) {
			r.attach(k)
			k.conn.SetSendTimeout(w.sendTimeout)
			k.conn.Out = append(k.conn.Out, w.out[n:]...)
		}
		if !r.serveAsLeader(k, false) {
			return false
		}
	}
	b.count, b.sent = 0, 0
	return true
}

// trySendOut sends out, which is all of k's output, without waiting. It returns how much it has
// sent.
func (k *shardConn) trySendOut(out []byte) (n int) {
	switch {
	case k.deadlinePassed(waitOutput):
	case k.endsOutput:
		n = poll.SendEnd(int(k.fd), out)
	default:
		n, _ = poll.Send(int(k.fd), out) // if this fails, the next attempt does, too
	}
	poison.Fill(out[:n])
	return n
}

// parkSent makes a connection wait for its next request, or closes it. It reports false if a runner
// must serve it.
func (r *runner) parkSent(k *shardConn) bool {
	if k.endsOutput {
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
	if !r.leave(k, true) {
		return false
	}
	r.closeIfEnding(k)
	return true
}
