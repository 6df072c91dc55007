package fetch

import (
	"bufio"
	"bytes"
	"math"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/client"
	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/poison"
	"github.com/tarehq/tare/internal/poll"
)

const (
	// relayYieldAfter is how long a loop that is always busy keeps its processor.
	relayYieldAfter = 500 * time.Microsecond
	// sweepInterval is the least time between two checks of idle timeouts.
	sweepInterval = 100 * time.Millisecond
)

// Relay forwards tunnels between two sockets on event loops, one for each P. A tunnel that waits
// has neither a goroutine nor a buffer. The zero value is ready.
type Relay struct {
	mu    sync.Mutex
	loops []*relayLoop
	next  int // index of the loop of the next tunnel
}

// relayLoop is an event loop. Its goroutine waits for events only.
type relayLoop struct {
	loop   *poll.Loop
	start  time.Time
	buffer [2 * PieceSize]byte // of the goroutine

	mu      sync.Mutex       // guards the fields below, and tunnels
	tunnels map[int]*Relayed // by both descriptors
	watched map[int]*watched // by descriptor
	now     time.Duration    // after start; when the last event was reported
	sweep   *time.Timer      // calls endIdle
	sweepAt time.Duration    // after start; valid while there are tunnels
}

// Relayed is a Tunnel on a loop.
//
// Each direction ends after the end of its input, when all of that was written, or when its output
// has failed. A socket is watched for input unless the other one still has output or has failed.
type Relayed struct {
	tunnel       *Tunnel
	loop         *relayLoop
	client       relaySocket
	upstream     relaySocket
	lastActivity time.Duration // after the loop's start
	done         func(sent int64, why *TunnelError)
	isOver       bool
}

type relaySocket struct {
	side           side
	fd             int
	in, out        bool   // what the loop reports
	hasEnded       bool   // the end of its input, or an error, was read
	hasFailed      bool   // it accepts no output
	endSent        bool   // its output was ended
	unsent         []byte // output that it had no room for
	received, sent int64
}

// acquire returns a loop for a tunnel, or nil if no descriptor is left for one.
func (r *Relay) acquire() *relayLoop {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.next % runtime.GOMAXPROCS(0)
	if r.next = i + 1; i >= len(r.loops) {
		loop, err := poll.NewLoop()
		if err != nil {
			return nil
		}
		l := &relayLoop{loop: loop, start: time.Now(), tunnels: make(map[int]*Relayed), watched: make(map[int]*watched)}
		l.sweep = time.AfterFunc(farFuture, l.endIdle)
		r.loops = append(r.loops, l)
		i = len(r.loops) - 1
		go l.run()
	}
	return r.loops[i]
}

// Close ends the loops, which have no tunnels any more.
func (r *Relay) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.loops {
		l.sweep.Stop()
		_ = l.loop.Close()
	}
	r.loops = nil
}

// Relay takes the sockets of a tunnel, and the timers of its attempt end. The caller must call
// Begin. first holds what the client has sent already. Relay returns nil, and has changed nothing,
// if one of the connections is not a TCP or unix socket, or if no descriptor is left.
func (t *Tunnel) Relay(r *Relay, nc net.Conn, first *bufio.Reader) *Relayed {
	toClient, _, err := client.DuplicateSocket(nc)
	if err != nil {
		return nil
	}
	toUpstream, received, err := client.DuplicateSocket(t.upstream)
	if err != nil {
		_ = poll.Close(toClient)
		return nil
	}
	l := r.acquire()
	if l == nil {
		_, _ = poll.Close(toClient), poll.Close(toUpstream)
		return nil
	}
	fromClient, _ := first.Peek(first.Buffered())
	_, _ = nc.Close(), t.upstream.Close()
	t.attempt.stop()
	return &Relayed{tunnel: t, loop: l,
		client: relaySocket{side: clientSide, fd: toClient, unsent: bytes.Clone(received)},
		upstream: relaySocket{side: upstreamSide, fd: toUpstream, unsent: bytes.Clone(fromClient),
			received: int64(len(received))}}
}

// Begin forwards in both directions until the upstream's side ends, both are silent for ReadTimeout,
// or one accepts nothing for its send timeout. Then it closes both, and calls done in another
// goroutine with the number of bytes that the client was sent, and why the tunnel has ended.
func (t *Relayed) Begin(done func(sent int64, why *TunnelError)) {
	l := t.loop
	l.mu.Lock()
	defer l.mu.Unlock()
	t.done = done
	l.tunnels[t.client.fd], l.tunnels[t.upstream.fd] = t, t
	t.lastActivity = time.Since(l.start)
	if len(l.tunnels) == 2 {
		l.sweepAt = math.MaxInt64
	}
	if t.isOver {
		l.end(t)
		return
	}
	l.update(t)
}

// Close ends the tunnel, at the latest when Begin is called.
func (t *Relayed) Close() {
	t.loop.mu.Lock()
	defer t.loop.mu.Unlock()
	if t.done != nil {
		t.loop.end(t)
	}
	t.isOver = true
}

// watched is a socket whose input a function receives.
type watched struct {
	fd      int
	receive func(memory []byte) (goesOn, hasMore bool)
	over    func()
}

var _ connection.InputLoop = (*Relay)(nil)

// WatchInput implements connection.InputLoop.
func (r *Relay) WatchInput(fd int, receive func(memory []byte) (goesOn, hasMore bool),
	over func()) (stop func(), ok bool) {
	l := r.acquire()
	if l == nil {
		return nil, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &watched{fd, receive, over}
	if l.loop.Watch(fd, fd, true, false, false) != nil {
		return nil, false
	}
	l.watched[fd] = w
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.unwatch(w)
	}, true
}

// unwatch ends a watch, unless it is over.
func (l *relayLoop) unwatch(w *watched) {
	if l.watched[w.fd] != w {
		return
	}
	delete(l.watched, w.fd)
	_ = l.loop.Remove(w.fd)
	go w.over()
}

// run serves tunnels until the loop is closed.
func (l *relayLoop) run() {
	lastYield := l.start
	_ = l.loop.Serve(func(events []poll.Event, waited bool) (hasMore bool) {
		now := time.Now()
		for _, e := range events {
			if l.handle(e, now.Sub(l.start)) || e.Ended {
				hasMore = true
			}
		}
		if waited {
			lastYield = now
		} else if now.Sub(lastYield) > relayYieldAfter {
			l.loop.Yield()
			lastYield = time.Now()
		}
		return hasMore
	})
}

// handle serves what an event concerns, and reports whether it may have left input.
func (l *relayLoop) handle(e poll.Event, now time.Duration) (hasMore bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = now
	if t := l.tunnels[e.ID]; t != nil { // else it has ended
		return l.serve(t, e)
	}
	w := l.watched[e.ID]
	if w == nil {
		return false
	}
	goesOn, hasMore := w.receive(l.buffer[:])
	if !goesOn {
		l.unwatch(w)
	}
	return hasMore
}

// serve forwards what an event reports. The event may be of an earlier socket with the descriptor,
// and then has no effect. serve reports whether it may have left input.
func (l *relayLoop) serve(t *Relayed, e poll.Event) (hasMore bool) {
	s, other := &t.client, &t.upstream
	if e.ID == other.fd {
		s, other = other, s
	}
	if e.Writable && s.out {
		t.write(s, s.unsent)
	}
	if e.Readable && s.in {
		hasMore = l.receive(t, s, other)
	}
	l.update(t)
	return hasMore
}

// receive forwards what has arrived at s. It reports whether it may have left input.
func (l *relayLoop) receive(t *Relayed, s, other *relaySocket) (hasMore bool) {
	n, err := poll.Recv(s.fd, l.buffer[:])
	switch {
	case err == poll.ErrAgain: //nolint:errorlint // never wrapped
	case err != nil:
		t.tunnel.fail(s.side, err)
		s.hasEnded, s.hasFailed, s.unsent = true, true, nil
	case n == 0:
		s.hasEnded = true
	default:
		t.lastActivity = l.now
		s.received += int64(n)
		t.write(other, l.buffer[:n])
		other.unsent = bytes.Clone(other.unsent)
		poison.Fill(l.buffer[:n])
	}
	return n == len(l.buffer)
}

// write sends b to a socket. unsent is then the rest of b.
func (t *Relayed) write(s *relaySocket, b []byte) {
	n, err := poll.Send(s.fd, b)
	if err == nil {
		t.lastActivity = t.loop.now
		s.sent += int64(n)
		b = b[n:]
	} else if err != poll.ErrAgain { //nolint:errorlint // never wrapped
		t.tunnel.fail(s.side, err)
		s.hasFailed, b = true, nil
	}
	if s.unsent = b; len(b) == 0 {
		s.unsent = nil
	}
}

// update ends the directions of a tunnel that are over, or the tunnel, and makes the loop report
// what it waits for.
func (l *relayLoop) update(t *Relayed) {
	c, u := &t.client, &t.upstream
	if u.ends(c) && (u.hasEnded || c.ends(u)) {
		l.end(t)
		return
	}
	if c.ends(u) && !u.endSent {
		u.endSent = true
		_ = poll.CloseWrite(u.fd) // after an error, its input ends
	}
	if l.watch(c, u) != nil || l.watch(u, c) != nil {
		l.end(t)
		return
	}
	if at := t.deadline(); at < l.sweepAt {
		l.sweepAt = at
		l.sweep.Reset(at - time.Since(l.start))
	}
}

// deadline returns when the tunnel ends unless something happens before.
func (t *Relayed) deadline() time.Duration {
	return t.lastActivity + t.tunnel.timeout(len(t.client.unsent) > 0, len(t.upstream.unsent) > 0)
}

// ends reports whether all input of s was sent to other, or cannot be.
func (s *relaySocket) ends(other *relaySocket) bool {
	return other.hasFailed || s.hasEnded && len(other.unsent) == 0
}

// watch makes the loop report what s waits for. A socket that waits for nothing is not in the loop,
// which would always report its failure.
func (l *relayLoop) watch(s, other *relaySocket) (err error) {
	in, out := !s.hasEnded && !other.hasFailed && len(other.unsent) == 0, len(s.unsent) > 0
	switch {
	case in == s.in && out == s.out:
		return nil
	case in || out:
		err = l.loop.Watch(s.fd, s.fd, in, out, s.in || s.out)
	default:
		err = l.loop.Remove(s.fd)
	}
	s.in, s.out = in, out
	return err
}

// endIdle ends tunnels whose deadline has passed.
func (l *relayLoop) endIdle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, next := time.Since(l.start), time.Duration(farFuture)
	for fd, t := range l.tunnels {
		left := t.deadline() - now
		switch {
		case left <= 0:
			t.tunnel.fail(silentSide(len(t.client.unsent) > 0, len(t.upstream.unsent) > 0), os.ErrDeadlineExceeded)
			l.end(t)
		case fd == t.client.fd:
			next = min(next, left)
		}
	}
	if len(l.tunnels) > 0 {
		next = max(next, sweepInterval)
		l.sweepAt = now + next
		l.sweep.Reset(next)
	}
}

// end removes a tunnel from the loop. The rest may block: closing a socket that lingers, and logs.
func (l *relayLoop) end(t *Relayed) {
	if l.tunnels[t.client.fd] != t {
		return // it has ended before
	}
	for _, s := range [...]*relaySocket{&t.client, &t.upstream} {
		delete(l.tunnels, s.fd)
		if s.in || s.out {
			_ = l.loop.Remove(s.fd)
		}
	}
	go t.finish()
}

// finish closes the sockets, and reports the tunnel's end.
func (t *Relayed) finish() {
	_, _ = poll.Close(t.client.fd), poll.Close(t.upstream.fd)
	t.tunnel.attempt.recordEnd(false)
	t.tunnel.attempt.Ended(t.upstream.sent, t.upstream.received)
	t.done(t.client.sent, t.tunnel.why.Load())
}
