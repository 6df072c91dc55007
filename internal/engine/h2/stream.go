package h2

import (
	"context"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/engine/exchange"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// Stream is a request and its response on a session: what exchange has of a protocol, for one
// exchange. Handlers may keep it by a context, so that it is never reused.
//
// Its states are those of RFC 9113, 5.1, as seen by the server. It is in Session.streams while it
// is open or half-closed, and isClosed afterwards. Its handler may still run then.
type Stream struct {
	session    *Session
	exchange   *exchange.Exchange
	id         uint32
	headBytes  uint32 // of the decoded head
	blockBytes uint32 // of the encoded head
	host       Host   // of the handler, or nil
	token      uint64 // of the turn during which the handler runs; 0 if it runs elsewhere
	framing    framing

	// The session's mutex guards the rest.
	urgency     uint8
	incremental bool
	isClosed    bool
	inEnded     bool  // the client has sent END_STREAM
	dropsBody   bool  // the handler reads the body no more
	keepsBody   bool  // what has arrived of the body is whole, and can be read although isClosed
	granted     bool  // reserve may return
	isPinged    bool  // a PING has followed the early response
	err         error // why it was closed

	sendWindow    int32
	window        wire.ReceiveWindow
	writeDeadline time.Time
	wants         int // bytes that reserve waits for
	reserved      int // bytes that reserve has granted and that were not appended yet

	body         []byte // DATA that has not been read
	bodyStart    int
	declared     int64 // by Content-Length; -1 if unknown
	received     int64
	trailer      http.Header
	readDeadline time.Time

	timer               *time.Timer   // calls expire at writeDeadline, or checkHalfClosed
	readWake, writeWake chan struct{} // made by the first call that waits
}

var (
	_ exchange.Stream         = (*Stream)(nil)
	_ connection.HeadMeasurer = (*Stream)(nil)
)

// Target returns what selects the handler.
func (st *Stream) Target() (method, uri string) {
	return st.exchange.Request.Method, st.exchange.Request.RequestURI
}

// IsWhole reports whether the handler need not wait for the request's body.
func (st *Stream) IsWhole() bool {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	return st.inEnded
}

// HasArrived implements exchange.Source.
func (st *Stream) HasArrived(_ *exchange.Body, whole bool) bool {
	st.session.mu.Lock()
	defer st.session.mu.Unlock()
	return st.inEnded || !whole && (st.bodyStart < len(st.body) || st.readErrorLocked() != nil)
}

// Run runs the stream's handler and ends the stream. host is nil unless others wait for the
// goroutine. token is that of the turn that the caller has entered, or 0. The caller then calls
// Settle, unless it still holds the turn: it can thus time the handler without the write.
func (st *Stream) Run(host Host, token uint64) {
	s, x := st.session, st.exchange
	c := s.config.conns.Get()
	st.host, st.token = host, token
	c.AttachStream(st, s.template)
	x.Response.Init(c, x, 1, true)
	returned := false
	defer func() {
		if !returned {
			c.AbortExchange(recover())
			st.finish(false)
			st.Settle() // after Goexit the caller does not
		}
		s.config.conns.Put(c)
	}()
	c.RunExchange(x)
	returned = true
	st.finish(st.framing.hasEnded && c.WriteErr == nil)
}

// finish ends the stream after its handler has returned. complete reports that the response is.
func (st *Stream) finish(complete bool) {
	s := st.session
	s.mu.Lock()
	s.releaseLocked(st)
	s.discardBodyLocked(st)
	if !st.isClosed {
		switch {
		case !complete:
			s.resetLocked(st, wire.InternalError, errStreamClosed)
		case !st.inEnded:
			s.halfCloseLocked(st)
		default:
			delete(s.streams, st.id)
			st.closeLocked(errStreamClosed)
		}
		s.ledger.Credit(1)
	}
	if server := s.config.Exchanges.Server; !server.KeepsConnections() {
		s.announceLocked()
	}
	s.checkIdleLocked()
	s.mu.Unlock()
}

// releaseLocked is called when a stream's handler has returned, or will not run.
func (s *Session) releaseLocked(st *Stream) {
	s.running--
	s.headBytes -= int(st.headBytes)
}

// checkIdleLocked notes that the last stream has ended.
func (s *Session) checkIdleLocked() {
	if s.isIdleLocked() {
		s.idleAt = time.Now()
		if s.mostStreams > keptStreams {
			s.streams, s.mostStreams = make(map[uint32]*Stream), 0
		}
		s.endIfDrainedLocked()
	}
}

// Settle sends the rest of a response whose handler has run outside a turn.
//
// If other handlers of the session run, it first lets the goroutines run that are ready. Handlers
// of a proxy that wait for the same server often continue together, and the responses of those that
// return meanwhile leave in one write.
func (st *Stream) Settle() {
	s := st.session
	s.mu.Lock()
	switch {
	case s.running == 0: // the last response is sent at once
		s.mu.Unlock()
	case s.isGathering: // that goroutine sends this one, too
		s.mu.Unlock()
		return
	case s.ungathered > 0:
		s.ungathered--
		s.mu.Unlock()
	default:
		s.isGathering = true
		s.mu.Unlock()
		began := time.Now()
		runtime.Gosched()
		isLate := time.Since(began) > maxGathering
		s.mu.Lock()
		s.isGathering = false
		if isLate {
			s.ungathered = mostUngathered
		}
		s.mu.Unlock()
	}
	s.Flush()
	if s.IsIdle() {
		s.carrier.Update()
	}
}

// If a goroutine that gathers responses has been held up for longer than maxGathering, because others
// compute, the next mostUngathered responses are sent at once.
const (
	maxGathering   = 200 * time.Microsecond
	mostUngathered = 64
)

// isOnTurn reports whether the handler runs in the goroutine that holds the turn.
func (st *Stream) isOnTurn() bool { return st.token != 0 && st.session.Turn.IsHeld(st.token) }

// closeLocked closes the stream. Reads and writes fail with err.
func (st *Stream) closeLocked(err error) {
	st.isClosed, st.err = true, err
	st.stopTimerLocked()
	st.session.dropWaitingLocked(st)
	exchange.Signal(st.readWake)
	exchange.Signal(st.writeWake)
}

// abort ends the context of the request.
func (st *Stream) abort() {
	if st.exchange != nil {
		st.exchange.Abort()
	}
}

// dropStreamLocked ends a stream before its handler has, or one that is half-closed. Reads and
// writes fail with err.
func (s *Session) dropStreamLocked(st *Stream, err error) {
	delete(s.streams, st.id)
	if st.isClosed {
		st.stopTimerLocked()
		s.checkIdleLocked()
		return
	}
	s.closeBodyLocked(st)
	st.closeLocked(err)
}

// writeErrorLocked returns why the response cannot be continued.
func (st *Stream) writeErrorLocked() error {
	switch {
	case st.isClosed:
		return st.err
	case st.session.output.failed != nil:
		return st.session.output.failed
	case exchange.IsPast(st.writeDeadline):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// send sends complete frames.
func (st *Stream) send(p []byte, timeout time.Duration) error {
	if err := st.append(timeout, p); err != nil {
		return err
	}
	if !st.exchange.Response.HasReturned() {
		st.session.Flush() // the handler has called Flush
	}
	return nil
}

// sendPieces sends complete frames, which lie in pieces.
func (st *Stream) sendPieces(pieces [][]byte, timeout time.Duration) error {
	if err := st.append(timeout, pieces...); err != nil {
		return err
	}
	if !st.isOnTurn() {
		st.session.Flush()
	}
	return nil
}

// append appends complete frames to the session's output. The DATA in them was reserved.
func (st *Stream) append(timeout time.Duration, pieces ...[]byte) error {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	err := st.writeErrorLocked()
	if err == nil && st.reserved == 0 && s.output.pendingLocked() >= maxOut {
		_, err = st.reserveLocked(0, timeout)
	}
	if err != nil {
		st.unreserveLocked()
		return err
	}
	for _, p := range pieces {
		s.output.out = append(s.output.out, p...)
	}
	s.output.reserved -= st.reserved
	st.reserved = 0
	if s.output.unacked > 0 {
		s.acknowledgeSettingsLocked()
	}
	return nil
}

// SetWriteDeadline implements exchange.Transport.
func (st *Stream) SetWriteDeadline(t time.Time) error {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	st.writeDeadline = t
	s.ownDeadline = s.ownDeadline || st.exchange.Response.Flags.Has(exchange.HandlerWriteDeadline)
	st.stopTimerLocked()
	if !t.IsZero() && !st.isClosed {
		st.timer = time.AfterFunc(time.Until(t), st.expire)
	}
	exchange.Signal(st.writeWake)
	return nil
}

func (st *Stream) stopTimerLocked() {
	if st.timer != nil {
		st.timer.Stop()
		st.timer = nil
	}
}

// expire resets a stream whose write deadline has passed, as net/http does, even if its handler
// does not write.
func (st *Stream) expire() {
	s := st.session
	s.mu.Lock()
	expires := !st.isClosed && exchange.IsPast(st.writeDeadline)
	if expires {
		s.resetLocked(st, wire.InternalError, os.ErrDeadlineExceeded)
	}
	s.mu.Unlock()
	if expires {
		st.exchange.Abort()
		s.Flush()
	}
}

// SetReadDeadline implements exchange.Transport.
func (st *Stream) SetReadDeadline(t time.Time) error {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	st.readDeadline = t
	exchange.Signal(st.readWake)
	return nil
}

// MayBlock implements exchange.Transport.
func (st *Stream) MayBlock() {
	if st.host != nil {
		st.host.MayBlock()
	}
}

// Context implements exchange.Transport.
func (st *Stream) Context() context.Context { return st.session.carrier.Connection().Context() }

// Logf implements exchange.Transport.
func (st *Stream) Logf(format string, args ...any) {
	st.session.carrier.Connection().Logf(format, args...)
}

// Opened implements connection.Info.
func (st *Stream) Opened() time.Time { return st.session.carrier.Connection().Opened() }

// CountRequest implements connection.Info.
func (st *Stream) CountRequest() int { return int(st.session.requests.Add(1)) }

// Number implements connection.Info.
func (st *Stream) Number(counter *atomic.Int64) int64 {
	return st.session.carrier.Connection().Number(counter)
}

// HeadLength implements connection.HeadMeasurer.
func (st *Stream) HeadLength() int64 { return int64(st.blockBytes) }

// LocalAddr implements exchange.Transport.
func (st *Stream) LocalAddr() net.Addr { return st.session.carrier.Connection().LocalAddr() }
