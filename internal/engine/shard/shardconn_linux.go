package shard

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/netconn"
	"github.com/tarehq/tare/internal/engine/sched"
	"github.com/tarehq/tare/internal/poll"
)

// shardConn is a connection on a shard, and all that a waiting connection holds. The shard's loop
// reports events of its descriptor. While a runner serves it, it is the net.Conn of the runner's
// conn. Its Read and Write may block; before they do, they give up the loop's lead.
//
// The fields that each request uses come first, because each cache line is a miss if there are
// thousands of connections. A test pins the whole size.
type shardConn struct {
	state    connState
	refs     atomic.Int32 // running calls on fd; Close makes it negative
	fd       int32
	home     atomic.Pointer[shard] // whose loop reports its events; changed only by the leader that serves it
	origin   *origin
	remote   string         // not part of a larger string, because handlers keep it
	conn     *exchange.Conn // while a runner serves it, or for a part of a head
	servedBy *sched.Leader  // while a runner serves it
	tls      *tlsLayer      // nil without TLS, and while flagAwaitsTLS is set

	session         atomic.Pointer[shardSession] // of HTTP/2
	opened          instant
	watchedExchange atomic.Pointer[exchange.Exchange] // whose context ends when the client leaves

	mu        sync.Mutex
	deadlines [2]instant // by direction
	waiters   *waiters   // made by the first call that waits

	requests     uint32 // counted by CountRequest
	mayHaveInput bool   // there may be more to read; owned by the goroutine that serves it
	endsOutput   bool   // nothing follows the output of conn; set before that is flushed
	number       connection.Number
}

// connState is the state of a shardConn, in one word: which goroutine may use it, and flags.
//
//	waiting ──claim──▶ served ──claim──▶ served, event ──park──▶ served
//	served ──park──▶ waiting ──closeWaiting, expire──▶ closed
//	any ──Close──▶ closed
//
// A loop claims a waiting connection when it has an event for it. If the connection is being
// served, the claim only records the event. The runner finds it when it parks the connection, and
// reads once more.
type connState struct{ word atomic.Uint32 }

const (
	stateWaiting uint32 = iota
	stateServed
	stateServedEvent
	stateClosed
	stateMask = stateClosed
)

// Flags of a connState. The first three belong to the goroutine that serves the connection. While
// flagAwaitsTLS is set, no other goroutine uses the connection's settings and its TLS layer, which
// are not decided yet.
const (
	flagNew       = 4 << iota // no request has been served
	flagHead                  // it waits for the rest of a head
	flagAwaitsTLS             // its TLS handshake is not complete
	flagLingers               // it is read to its end before it is closed; see Group.shed
	flagEnded                 // the loop has reported the end of the input
	flagAdded                 // the loop reports events
	flagDeadlines             // a deadline is set
)

func (s *connState) is(state uint32) bool { return s.word.Load()&stateMask == state }

func (s *connState) has(flag uint32) bool { return s.word.Load()&flag != 0 }

func (s *connState) set(flag uint32, on bool) {
	if on {
		s.word.Or(flag)
	} else {
		s.word.And(^flag)
	}
}

func (s *connState) close() { s.word.Or(stateClosed) } // sets all bits of the mask

func (s *connState) move(from, to uint32) bool {
	for word := s.word.Load(); word&stateMask == from; word = s.word.Load() {
		if s.word.CompareAndSwap(word, word&^stateMask|to) {
			return true
		}
	}
	return false
}

// waiters are the channels on which Read and Write wait, by direction.
type waiters [2]chan struct{}

func newShardConn(on *shard, from *origin, fd int, remote string) *shardConn {
	k := &shardConn{fd: int32(fd), origin: from, remote: remote, opened: on.group.now()}
	k.home.Store(on)
	k.state.set(flagNew, true)
	if from.config.tls != nil {
		k.state.set(flagAwaitsTLS, true)
	}
	return k
}

// ready returns when the client could send its first request: when the connection was opened, or
// when the TLS handshake ended.
func (k *shardConn) ready() instant {
	if !k.state.has(flagAwaitsTLS) && k.tls != nil {
		return k.tls.secured
	}
	return k.opened
}

// addToLoop makes the loop report events, and input that has arrived before. A connection that ends
// before it waits for anything needs no event. The caller serves the connection or has acquired it.
func (k *shardConn) addToLoop() error {
	if k.state.has(flagAdded) {
		return nil
	}
	k.mu.Lock() // a handler may wait in both directions
	defer k.mu.Unlock()
	return k.addToLoopLocked()
}

func (k *shardConn) addToLoopLocked() error {
	if k.state.has(flagAdded) {
		return nil
	}
	err := k.shard().loop.Add(int(k.fd), int(k.fd), k.tag())
	k.state.set(flagAdded, err == nil)
	return err
}

// addOrClose is addToLoop for a connection that package net has accepted.
func (k *shardConn) addOrClose() {
	if !k.acquire() {
		return // closed meanwhile, and another file may have the descriptor
	}
	defer k.release()
	if err := k.addToLoop(); err != nil {
		k.group().server.Logf("http: %v: connection from %s closed", err, k.remote)
		_ = k.Close()
	}
}

// tag returns the tag of the connection's events. It tells connections apart that have had the same
// descriptor: such connections were opened at different times.
func (k *shardConn) tag() uint32 { return uint32(k.opened) }

func (k *shardConn) shard() *shard   { return k.home.Load() }
func (k *shardConn) config() *Config { return k.origin.config }
func (k *shardConn) group() *Group   { return k.shard().group }

// claim reports whether the caller now serves the connection. If it is being served already, claim
// records the event.
func (k *shardConn) claim(e poll.Event) bool {
	if e.Ended {
		k.state.set(flagEnded, true)
	}
	for {
		switch {
		case k.state.move(stateWaiting, stateServed):
			return true
		case k.state.is(stateClosed):
			return false
		case k.state.is(stateServedEvent) || k.state.move(stateServed, stateServedEvent):
			k.notifyWaiters(e)
			return false
		}
	}
}

func (k *shardConn) notifyWaiters(e poll.Event) {
	k.mu.Lock()
	if k.waiters != nil {
		if e.Readable {
			exchange.Signal(k.waiters[waitInput])
		}
		if e.Writable {
			exchange.Signal(k.waiters[waitOutput])
		}
	}
	k.mu.Unlock()
	if e.Readable {
		k.checkDeparture()
	}
}

// checkDeparture cancels the context of the watched exchange if the client has left.
func (k *shardConn) checkDeparture() {
	x := k.watchedExchange.Load()
	if x == nil || !k.acquire() {
		return
	}
	hasLeft := false
	var in []byte
	switch {
	case k.tls != nil:
		hasLeft = k.tls.clientLeft(x)
	case x.Extras == nil:
		hasLeft = poll.Ended(int(k.fd))
	default: // what remains of the request may hide the end
		if hasLeft = k.state.has(flagEnded) || poll.Ended(int(k.fd)); !hasLeft {
			in = make([]byte, 1<<10) // for an abort
			in = in[:poll.Peek(int(k.fd), in)]
		}
	}
	k.release()
	x.Watched(in, hasLeft)
}

// park makes the connection wait. It reports false if an event was recorded since the last read;
// the caller then still serves it.
func (k *shardConn) park() bool {
	return k.state.move(stateServed, stateWaiting) || !k.state.move(stateServedEvent, stateServed)
}

// expire closes the connection if it waits and its deadline has passed.
func (k *shardConn) expire(now instant) {
	if !k.state.has(flagDeadlines) || !k.state.is(stateWaiting) {
		return
	}
	if h := k.session.Load(); h != nil {
		h.expire()
		return
	}
	switch at := k.deadline(waitInput); {
	case at == 0 || at > now || !k.state.move(stateWaiting, stateClosed):
	case k.state.has(flagAwaitsTLS) || k.conn != nil:
		go k.closeLate() // the sweeper must not wait for a log or a hook
	default:
		_ = k.Close()
	}
}

// closeLate closes a connection whose handshake or head is late, and reports that.
func (k *shardConn) closeLate() {
	defer k.Close()
	if k.state.has(flagAwaitsTLS) {
		err := k.opError("read", os.ErrDeadlineExceeded)
		netconn.HandshakeFailed(k.config().Exchanges, k.LocalAddr(), k.remote, err)
		return
	}
	k.conn.ReportRefusal(http.StatusRequestTimeout, 0)
}

// closeWaiting closes the connection if no runner serves it. It reports whether it did.
func (k *shardConn) closeWaiting() bool {
	isClaimed := k.state.move(stateWaiting, stateClosed)
	if isClaimed {
		_ = k.Close()
	}
	return isClaimed
}

// closeIfIdle closes a connection that waits for a request, unless it is too new. It reports whether
// it did. Closing it while a part of a request is unread would reset it, and the request would be
// lost.
func (k *shardConn) closeIfIdle() bool {
	if h := k.session.Load(); h != nil { // the client must learn of it first
		h.session.Shutdown()
		h.session.Flush()
		h.expire()
		return false
	}
	if !k.state.is(stateWaiting) || k.state.has(flagHead) || !k.isQuiet() {
		return false
	}
	tooNew := k.state.has(flagNew) && time.Duration(k.group().now()-k.ready()) < exchange.NewGrace
	return !tooNew && k.closeWaiting()
}

// isQuiet reports whether nothing has arrived that was not read.
func (k *shardConn) isQuiet() bool {
	if !k.acquire() {
		return true
	}
	defer k.release()
	return poll.Quiet(int(k.fd))
}

func (k *shardConn) quietFor() time.Duration {
	if !k.acquire() {
		return 0
	}
	defer k.release()
	return poll.QuietFor(int(k.fd))
}

// acquire keeps the descriptor open until release. It reports false after Close.
func (k *shardConn) acquire() bool {
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

// closedRefs is what Close adds to refs.
const closedRefs = -1 << 30

func (k *shardConn) release() {
	if k.refs.Add(-1) == closedRefs {
		k.closeFD()
	}
}

// Close implements net.Conn. No call waits any more: the exchange has ended, or its body and its
// response are locked (Hijack).
func (k *shardConn) Close() error {
	for {
		n := k.refs.Load()
		if n < 0 {
			return net.ErrClosed
		}
		if k.refs.CompareAndSwap(n, n+closedRefs) {
			k.state.close()
			if h := k.session.Load(); h != nil {
				h.session.Closed()
			}
			if n == 0 {
				k.closeFD()
			}
			return nil
		}
	}
}

// closeFD closes the descriptor, which is no longer in use. A Request that a program keeps refers
// to the shardConn, but must not keep the buffers that served it.
func (k *shardConn) closeFD() {
	if k.tls != nil {
		k.tls.end()
	}
	k.group().conns.remove(int(k.fd), k)
	if k.state.has(flagHead) {
		k.group().server.PartialHeads.Add(-1)
		k.conn = nil
	}
	k.servedBy = nil
	if k.config().lingers {
		_ = poll.Close(int(k.fd))
	} else {
		_ = poll.CloseAtOnce(int(k.fd))
	}
	k.group().connGone()
}

// shutdown ends the connection while a runner serves it.
func (k *shardConn) shutdown() {
	if k.acquire() {
		_ = poll.Shutdown(int(k.fd))
		k.release()
	}
}

// The methods of an exchange.Connection and a net.Conn that do not wait.

func (k *shardConn) Opened() time.Time                  { return k.group().epoch.Add(time.Duration(k.opened)) }
func (k *shardConn) Context() context.Context           { return k.origin.ctx }
func (k *shardConn) Number(counter *atomic.Int64) int64 { return k.number.Of(counter) }
func (k *shardConn) Logf(format string, args ...any) {
	k.config().Exchanges.Server.Logf(format, args...)
}

func (k *shardConn) CountRequest() int {
	k.requests++
	return int(k.requests)
}

// MayBlock implements exchange.Transport. During a handshake no runner serves the connection.
func (k *shardConn) MayBlock() {
	if k.servedBy != nil {
		k.servedBy.MayBlock()
	}
}

// WatchDeparture implements exchange.Connection. The loop reports later events; earlier ones are
// checked here.
func (k *shardConn) WatchDeparture(x *exchange.Exchange) {
	if k.acquire() {
		_ = k.addToLoop() // if this fails, the next wait does, too
		k.release()
	}
	k.watchedExchange.Store(x)
	k.checkDeparture()
}

func (k *shardConn) StopWatch() {
	if k.watchedExchange.Load() != nil {
		k.watchedExchange.Store(nil)
		if k.tls != nil {
			k.tls.endWatch(k.conn)
		}
	}
}

// direction is the event that a call waits for.
type direction uint8

const (
	waitInput direction = iota
	waitOutput
)

func (k *shardConn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: k.config().Listener.Addr().Network(), Source: k.LocalAddr(),
		Addr: k.RemoteAddr(), Err: err}
}

func (k *shardConn) RemoteAddr() net.Addr {
	if a, err := netip.ParseAddrPort(k.remote); err == nil {
		return net.TCPAddrFromAddrPort(a)
	}
	return &net.UnixAddr{Name: k.remote, Net: "unix"}
}

// LocalAddr implements net.Conn. After the connection was closed it returns the listener's address.
func (k *shardConn) LocalAddr() net.Addr {
	a := k.config().Listener.Addr()
	if t, ok := a.(*net.TCPAddr); ok && t.IP.IsUnspecified() && k.acquire() {
		defer k.release()
		switch sa, _ := syscall.Getsockname(int(k.fd)); sa := sa.(type) {
		case *syscall.SockaddrInet4:
			return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)))
		case *syscall.SockaddrInet6:
			ip := netip.AddrFrom16(sa.Addr).Unmap()
			if sa.ZoneId != 0 {
				ip = ip.WithZone(zoneName(int(sa.ZoneId)))
			}
			return net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, uint16(sa.Port)))
		}
	}
	return a
}

func zoneName(index int) string {
	if i, err := net.InterfaceByIndex(index); err == nil {
		return i.Name
	}
	return strconv.Itoa(index)
}
