package shard

import (
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/engine/h2"
	"github.com/tarehq/tare/internal/engine/sched"
	"github.com/tarehq/tare/internal/poll"
)

// A shardConn that speaks HTTP/2 has a session. A runner serves it in turns: it passes what has
// arrived to the session, runs the handlers that are expected to be quick, hands the others to
// other runners, flushes, and parks the connection. Handlers may run while the connection is
// parked: the loop still reports its frames.
//
// If the leader loses the lead in a handler, the runner that replaces it takes over the session's
// turn. It finds the session at shard.turnOf.

// shardSession is the h2.Carrier of a shardConn.
type shardSession struct {
	conn    *shardConn
	session *h2.Session
	mu      sync.Mutex // held while the wait's deadline is computed and set

	// bytes of the output that were encrypted and not yet counted as sent; owned by the goroutine
	// that sends
	encrypted int
}

var (
	_ h2.RoomWaiter = (*shardSession)(nil)
	_ h2.Host       = (*runner)(nil)
)

const (
	// turnReads is how many full buffers of one connection a turn reads.
	turnReads = 4
	// turnStreams is how many handlers of one connection a turn runs on the loop.
	turnStreams = 256
)

// checkPreface reports whether a new connection, on which input has arrived, begins with the preface
// (outcomeHTTP2), may begin with it, or must be closed because the settings allow nothing else.
func (r *runner) checkPreface(k *shardConn) (how outcome, mayBeHTTP2 bool) {
	c := k.conn
	if !c.Config.ServesH2C || !k.state.has(flagNew) {
		return outcomeServed, false
	}
	whole, partly := h2.BeginsPreface(c.Input())
	switch {
	case whole:
		return outcomeHTTP2, true
	case !partly && !c.Config.ServesHTTP1:
		return outcomeClose, false
	}
	return outcomeServed, partly
}

// newShardSession makes a session of k. state is nil without TLS.
func newShardSession(k *shardConn, state *tls.ConnectionState) *shardSession {
	h := &shardSession{conn: k}
	h.session = h2.New(k.config().HTTP2, h, k, k.remote, state)
	k.session.Store(h)
	k.state.set(flagNew, false)
	return h
}

// serveSession serves the streams of a session until nothing more has arrived. If isResumed is
// true, another runner has received the input. Then h waits, is closed, or another runner has its
// turn.
func (r *runner) serveSession(h *shardSession, isResumed bool) {
	k, s := h.conn, h.session
	for {
		if !isResumed && r.receiveFrames(h) != nil {
			// The client has left. As with net/http, its last requests run for their effects.
			for st := s.Next(); st != nil; st = s.Next() {
				r.handOff(job{stream: st, slot: sched.SlotFor(st.Target())})
			}
			_ = k.Close()
			return
		}
		isResumed = false
		all, holdsTurn := r.runStreams(h)
		if !holdsTurn {
			return
		}
		s.Flush()
		if k.addToLoop() != nil {
			_ = k.Close()
			return
		}
		if r.leader.Leads() {
			r.shard.turnOf.Store(nil)
		}
		again := k.mayHaveInput || !all
		if h.Update(); r.leave(k, false) {
			if again {
				h.AwaitRoom() // the loop reports the connection again, after others
			}
			return
		}
	}
}

// receiveFrames passes what has arrived to the session. It fails if the connection has ended.
func (r *runner) receiveFrames(h *shardSession) error {
	k := h.conn
	conns := k.config().conns
	room := conns.GetInput()
	defer conns.PutInput(room)
	k.mayHaveInput = false
	k.attachTLS()
	for left := turnReads * len(room); left > 0; {
		n, err := k.receive(room)
		if err == poll.ErrAgain { //nolint:errorlint // a bare errno
			return nil
		}
		if err != nil {
			return err
		}
		left -= n
		h.session.Receive(room[:n]) // what arrives after the session's end is dropped
		if n < len(room) && !k.state.has(flagEnded) && k.tls == nil {
			return nil
		}
	}
	k.mayHaveInput = true
	return nil
}

// runStreams runs the handlers of the streams that are ready, or hands them off. all reports that
// there are no more, and holdsTurn that the runner still has the session's turn.
func (r *runner) runStreams(h *shardSession) (all, holdsTurn bool) {
	for n := 0; n < turnStreams; n++ {
		st := h.session.Next()
		if st == nil {
			return true, true
		}
		id := sched.SlotFor(st.Target())
		isOnLoop := r.leader.Leads() && r.runsOnLoop(h.conn, id) && st.HasArrived(nil, true)
		if isOnLoop && r.shard.turnOf.Load() != h {
			r.shard.turnOf.Store(h)
		}
		if !isOnLoop || !r.leader.Enter(id) {
			r.handOff(job{stream: st, slot: id})
			continue
		}
		turn := &h.session.Turn
		token := turn.Enter()
		if !r.leader.Leads() && turn.Leave(token) { // the new leader came too early to take over
			r.handOff(job{stream: st, slot: id})
			continue
		}
		if r.leader.CountRun(id) {
			r.timeStream(st, id, r, token)
		} else {
			st.Run(r, token)
		}
		if !turn.Leave(token) {
			st.Settle()
			return false, false
		}
	}
	return false, true
}

func (r *runner) timeStream(st *h2.Stream, id sched.SlotID, on h2.Host, token uint64) {
	start := r.shard.group.now()
	st.Run(on, token)
	r.learn(id, start)
}

func (h *shardSession) Send(p []byte) (int, error) {
	k := h.conn
	if !k.acquire() {
		return 0, net.ErrClosed
	}
	defer k.release()
	if k.tls != nil {
		return h.sendTLS(p)
	}
	n, err := poll.Send(int(k.fd), p)
	if err == poll.ErrAgain { //nolint:errorlint // a bare errno
		return n, nil
	}
	return n, err
}

// sendTLS is Send over TLS. What was encrypted counts as sent when the socket has accepted all of
// it. Until then the session passes it again.
func (h *shardSession) sendTLS(p []byte) (sent int, err error) {
	k := h.conn
	for {
		switch _, err := k.tls.ciphertext.send(k); {
		case err == poll.ErrAgain: //nolint:errorlint // a bare errno
			return sent, nil
		case err != nil:
			return sent, err
		}
		sent += h.encrypted
		h.encrypted = 0
		if sent == len(p) {
			return sent, nil
		}
		n, err := k.tls.conn.Write(p[sent:min(len(p), sent+sendCiphertext)])
		if err != nil {
			return sent, err
		}
		h.encrypted = n
	}
}

// AwaitRoom implements h2.RoomWaiter. The loop reports the connection once, if there is room or input
// now.
func (h *shardSession) AwaitRoom() {
	k := h.conn
	if !k.acquire() {
		return
	}
	defer k.release()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.addToLoopLocked() == nil {
		_ = k.shard().loop.AddOutput(int(k.fd), int(k.fd), k.tag())
	}
}

func (h *shardSession) Update() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conn.setWaitDeadline(h.conn.group().instant(h.session.WaitDeadline()))
}

// End implements h2.Carrier. The connection closes when the client closes it, or after a delay:
// closing at once could reset it before the client has read the last frames.
func (h *shardSession) End(isClean bool) {
	if !isClean {
		h.conn.shutdown() // the loop reports the end
		return
	}
	_ = h.conn.endOutput(func() error { // without waiting
		_, err := h.conn.tls.ciphertext.send(h.conn)
		return err
	})
	h.Update()
	time.AfterFunc(h2.GoAwayTime, h.expire)
}

// expire closes the connection if its wait's deadline has passed and no runner serves it.
func (h *shardSession) expire() {
	at := h.session.WaitDeadline()
	if at.IsZero() || time.Now().Before(at) {
		return
	}
	if !h.session.Expire() || !h.conn.closeWaiting() {
		h.Update()
	}
}
