package engine

import (
	"context"
	"math"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/wire/fcgi"
	"github.com/tarehq/tare/internal/wire/http1"
)

// sock is a connection on a shard: what there is of it while it waits. Its
// descriptor is reported by the shard's loop. While a runner serves it, it is that
// runner's conn's net.Conn: Read and Write wait as a goroutine expects, and give up
// the loop's lead first.
//
// The first 64 bytes are what a request touches; the whole fits two cache lines. With
// thousands of connections each line is a miss.
type sock struct {
	state   atomic.Uint32 // see below
	refs    atomic.Int32  // calls on fd that are under way; Close makes it negative
	fd      int32
	ended   atomic.Bool // the loop has said that nothing more will arrive
	fresh   atomic.Bool // no request was served
	bounded atomic.Bool // a deadline is set
	home    *home
	remote  string   // of its own: handlers keep it
	partial *partial // the beginning of a head
	runs    *conn    // while it is served

	opened  instant
	watched atomic.Pointer[exchange] // whose context hears of the client's departure

	mu            sync.Mutex
	readDeadline  instant
	writeDeadline instant
	sides         *sides // made when somebody first waits

	requests uint32 // that were counted, by whoever serves the sock
}

// home is what the socks of a listener and a shard have in common.
type home struct {
	plan  *plan
	shard *shard
}

// instant is a time in nanoseconds since the group began; 0 is none.
type instant int64

// A sock's state. A loop that hears of a waiting sock claims it; of one that is
// being served it leaves a note, which whoever serves it finds before letting go.
const (
	waiting uint32 = iota
	served
	servedNoted
	dead
)

// partial is what has arrived of a head, and how far it has been parsed.
type partial struct {
	in      []byte
	request http1.Request
	params  *fcgi.Request // of FastCGI
	began   time.Time
}

// sides are where Read and Write wait.
type sides struct {
	read, write chan struct{}
	told        bool // the loop tells of room for output
}

func newSock(h *home, fd int, remote string) *sock {
	k := &sock{home: h, fd: int32(fd), remote: remote, opened: h.shard.group.now()}
	k.fresh.Store(true)
	return k
}

// group returns the group that the sock is of.
func (k *sock) group() *group { return k.home.shard.group }

// claim makes the sock its caller's to serve. If it is being served already, whoever
// does that is told.
func (k *sock) claim(e poll.Event) bool {
	if e.Ended {
		k.ended.Store(true)
	}
	if k.state.CompareAndSwap(waiting, served) {
		return true
	}
	for {
		switch state := k.state.Load(); state {
		case dead:
			return false
		case waiting:
			if k.state.CompareAndSwap(waiting, served) {
				return true
			}
		default:
			if k.state.CompareAndSwap(state, servedNoted) {
				k.note(e)
				return false
			}
		}
	}
}

// note wakes who waits for the event.
func (k *sock) note(e poll.Event) {
	k.mu.Lock()
	if k.sides != nil {
		if e.Readable {
			ring(k.sides.read)
		}
		if e.Writable || e.Ended {
			ring(k.sides.write)
		}
	}
	k.mu.Unlock()
	if e.Readable {
		k.lookForDeparture()
	}
}

func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// peekSize is how far lookForDeparture looks for FastCGI's message that a request is aborted.
const peekSize = 1 << 10

// lookForDeparture cancels the context of the exchange that is watched, if the
// client has gone.
func (k *sock) lookForDeparture() {
	if x := k.watched.Load(); x != nil && k.acquire() {
		gone, aborted := poll.Ended(int(k.fd)), false
		if records := x.fastCGI(); records != nil && !gone {
			var b [peekSize]byte
			aborted = records.foresees(b[:poll.Peek(int(k.fd), b[:])])
		}
		k.release()
		switch {
		case gone:
			x.ctx.depart()
		case aborted:
			x.abort()
		}
	}
}

// letGo makes the sock wait. It reports false if something has happened to it since
// it was last read; it is then still the caller's.
func (k *sock) letGo() bool {
	if k.state.CompareAndSwap(served, waiting) {
		return true
	}
	k.state.Store(served)
	return false
}

// waitUntil bounds the waiting that is about to begin; 0 is no bound. The group's
// sweeper sees to it.
func (k *sock) waitUntil(deadline instant) {
	if deadline == 0 && !k.bounded.Load() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.readDeadline, k.writeDeadline = deadline, 0
	k.bounded.Store(deadline != 0)
}

// expire closes the sock if it waits and has waited too long.
func (k *sock) expire(now instant) {
	if !k.bounded.Load() || k.state.Load() != waiting {
		return
	}
	k.mu.Lock()
	passed := k.readDeadline != 0 && k.readDeadline <= now
	k.mu.Unlock()
	if !passed || !k.state.CompareAndSwap(waiting, dead) {
		return
	}
	if k.partial == nil || k.home.plan.refused == nil {
		_ = k.Close()
		return
	}
	go k.closeLate() // the sweeper must not wait for the hook
}

// closeLate closes a sock whose head did not arrive in time, and reports that.
func (k *sock) closeLate() {
	defer k.Close()
	h := k.partial
	k.home.plan.report(k.LocalAddr(), k.remote, nil, &h.request, h.in, http.StatusRequestTimeout, 0)
}

// claimForClosing claims the sock if it is waiting, and not too new for that.
func (k *sock) claimForClosing() bool {
	if k.state.Load() != waiting {
		return false
	}
	tooNew := k.fresh.Load() && time.Duration(k.group().now()-k.opened) < newGrace
	return !tooNew && k.state.CompareAndSwap(waiting, dead)
}

// quietFor returns for how long nothing has arrived.
func (k *sock) quietFor() time.Duration {
	if !k.acquire() {
		return 0
	}
	defer k.release()
	return poll.QuietFor(int(k.fd))
}

// acquire keeps the descriptor open for a call. It reports false once Close was
// called.
func (k *sock) acquire() bool {
	for {
		n := k.refs.Load()
		if n < 0 {
			return false
		}
		if k.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// closedRefs is added to refs by Close.
const closedRefs = -1 << 30

func (k *sock) release() {
	if k.refs.Add(-1) == closedRefs {
		k.closeFD()
	}
}

// Close implements net.Conn.
func (k *sock) Close() error {
	for {
		n := k.refs.Load()
		if n < 0 {
			return net.ErrClosed
		}
		if k.refs.CompareAndSwap(n, n+closedRefs) {
			k.state.Store(dead)
			k.wakeAll()
			if n == 0 {
				k.closeFD()
			}
			return nil
		}
	}
}

// wakeAll lets who waits find that the sock was closed.
func (k *sock) wakeAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sides != nil {
		ring(k.sides.read)
		ring(k.sides.write)
	}
}

// closeFD closes the descriptor, which nobody uses any more. A request that is kept keeps the sock, but not what that
// had for being served.
func (k *sock) closeFD() {
	k.group().socks.remove(int(k.fd), k)
	k.runs, k.partial = nil, nil
	k.watched.Store(nil)
	_ = poll.Close(int(k.fd))
	k.group().gone()
}

// kill ends the connection under whoever serves it.
func (k *sock) kill() {
	if k.acquire() {
		_ = poll.Shutdown(int(k.fd))
		k.release()
	}
}

// Opened implements connection.Info.
func (k *sock) Opened() time.Time { return k.group().start.Add(time.Duration(k.opened)) }

// CountRequest implements connection.Info.
func (k *sock) CountRequest() int {
	if k.requests < math.MaxUint32 {
		k.requests++
	}
	return int(k.requests)
}

// context implements link.
func (k *sock) context() context.Context { return k.home.plan.base }

// raw implements link.
func (k *sock) raw() net.Conn { return k }

// logf implements link.
func (k *sock) logf(format string, args ...any) { k.home.plan.logf(format, args...) }

// beginWatch implements link. The loop does the watching; what has happened before
// is looked for here.
func (k *sock) beginWatch(x *exchange) {
	if records := x.fastCGI(); records != nil && records.beginWatch(k.runs) {
		x.abort()
		return
	}
	k.watched.Store(x)
	k.lookForDeparture()
}

// stopWatch implements link.
func (k *sock) stopWatch() {
	if k.watched.Load() != nil {
		k.watched.Store(nil)
	}
}

// takeOver implements link. The handler gets a connection of package net, with a
// descriptor of its own. Until there is one nothing changes: if there is none, the loop still serves the sock.
func (k *sock) takeOver() (net.Conn, error) {
	if !k.acquire() {
		return nil, net.ErrClosed
	}
	defer k.release() // closes our descriptor, once Close was called below
	nc, err := k.duplicate()
	for range 2 { // as many as that takes
		if outOfDescriptors(err) {
			k.group().shed()
			nc, err = k.duplicate()
		}
	}
	if err != nil {
		return nil, err
	}
	if err := k.home.shard.loop.Remove(int(k.fd)); err != nil {
		_ = nc.Close()
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	k.runs.giveUpLead()
	_ = k.Close() // of our descriptor; the handler's is another one
	return nc, nil
}

// duplicate makes a connection of package net of a duplicate of the descriptor.
func (k *sock) duplicate() (net.Conn, error) {
	fd, err := poll.Dup(int(k.fd))
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	f := os.NewFile(uintptr(fd), "")
	defer f.Close()
	return net.FileConn(f) // which has yet another descriptor
}

// sendNow implements sender.
func (k *sock) sendNow(b []byte) int {
	if !k.acquire() {
		return 0
	}
	defer k.release()
	n, _ := poll.Send(int(k.fd), b) // an error will meet the owner, too
	return n
}
