package h2

import (
	"context"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/engine/exchange"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

var (
	_ exchange.Stream         = (*Stream)(nil)
	_ connection.HeadMeasurer = (*Stream)(nil)
)

// Target returns what selects the handler.
func (st *Stream) Target() (method, uri string) {
	return st.exchange.Request.Method, st.exchange.Request.RequestURI
}

// HasArrived implements exchange.Source.
func (st *Stream) HasArrived(_ *exchange.Body, whole bool) bool {
	st.session.mu.Lock()
	defer st.session.mu.Unlock()
	return st.inEnded || !whole && (st.body.Len() > 0 || st.readErrorLocked() != nil)
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

// finish ends the stream after its handler has returned, or if it will not run. complete reports
// that the response is.
func (st *Stream) finish(complete bool) {
	s := st.session
	s.mu.Lock()
	s.running--
	s.headBytes -= int(st.headBytes)
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

// keptStreams is for how many streams an idle session keeps memory.
const keptStreams = 32

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
	case s.isGathering: // that goroutine sends this one, too
		s.mu.Unlock()
		return
	case s.ungathered > 0:
		s.ungathered--
	default:
		s.isGathering = true
		s.mu.Unlock()
		began := time.Now()
		runtime.Gosched()
		isLate := time.Since(began) > maxGathering
		s.mu.Lock()
		if s.isGathering = false; isLate {
			s.ungathered = mostUngathered
		}
	}
	s.mu.Unlock()
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

// SetWriteDeadline implements exchange.Transport. A write that waits is ended by expire.
func (st *Stream) SetWriteDeadline(t time.Time) error {
	s := st.session
	s.mu.Lock()
	defer s.mu.Unlock()
	st.writeDeadline = t
	s.ownDeadline = s.ownDeadline || st.exchange.Response.Flags.Has(exchange.HandlerWriteDeadline)
	st.startTimerLocked()
	return nil
}

// startTimerLocked makes the write deadline call expire.
func (st *Stream) startTimerLocked() {
	st.stopTimerLocked()
	if t := st.writeDeadline; !t.IsZero() && !st.isClosed {
		st.timer = time.AfterFunc(time.Until(t), st.expire)
	}
}

// expire resets a stream whose write deadline has passed, as net/http does, even if its handler
// does not write. It waits on if the clock was set back.
func (st *Stream) expire() {
	s := st.session
	s.mu.Lock()
	expires := !st.isClosed && exchange.IsPast(st.writeDeadline)
	if expires {
		s.resetLocked(st, wire.InternalError, os.ErrDeadlineExceeded)
	} else {
		st.startTimerLocked()
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

// CountRequest implements connection.Info: the session counts the requests of its streams.
func (st *Stream) CountRequest() int { return int(st.session.requests.Add(1)) }

// HeadLength implements connection.HeadMeasurer.
func (st *Stream) HeadLength() int64 { return int64(st.blockBytes) }

// The other methods of an exchange.Transport are the connection's.

func (st *Stream) Context() context.Context           { return st.session.conn.Context() }
func (st *Stream) LocalAddr() net.Addr                { return st.session.conn.LocalAddr() }
func (st *Stream) Logf(format string, args ...any)    { st.session.conn.Logf(format, args...) }
func (st *Stream) Number(counter *atomic.Int64) int64 { return st.session.conn.Number(counter) }
func (st *Stream) Opened() time.Time                  { return st.session.conn.Opened() }
