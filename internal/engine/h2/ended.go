package h2

import (
	"encoding/binary"
	"net"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// The server may end a stream before the client does:
//
//	open ──complete response──▶ half-closed ──earlyGrace──▶ pinged
//	pinged ──acknowledgment, GoAwayTime──▶ reset
//	open ──error, panic, write deadline──▶ reset
//	half-closed, pinged ──END_STREAM or RST_STREAM of the client──▶ closed
//
// RST_STREAM with NO_ERROR tells the client that it need not send the rest of the body (RFC 9113,
// 8.1). Clients such as curl 7.88 lose a response that they have not read when it arrives. A PING
// therefore follows the response, and RST_STREAM its acknowledgment.
//
// The frames that are under way meanwhile are dropped. Their bytes are returned to the connection's
// window and not to the stream's, so that the client cannot send more than the window of the stream
// allows. DATA or HEADERS on a closed stream is an error.

const (
	// earlyPing begins the content of the PING that follows an early response. Its stream follows.
	earlyPing = "resp"
	// earlyGrace is how long a client has to end the stream itself, as many do when they have
	// received the response. curl receives for all transfers of a connection, and serves one after
	// another.
	earlyGrace = 100 * time.Millisecond
)

// halfCloseLocked is called when a response is complete and the client has not ended the request.
// The stream is in Session.streams.
func (s *Session) halfCloseLocked(st *Stream) {
	st.closeLocked(errStreamClosed)
	st.timer = time.AfterFunc(earlyGrace, st.checkHalfClosed)
}

// checkHalfClosed sends a half-closed stream's PING or reset when it is due.
func (st *Stream) checkHalfClosed() {
	s := st.session
	s.mu.Lock()
	switch {
	case s.streams[st.id] == nil: // the client was quicker
	case !st.isPinged:
		st.isPinged = true
		s.output.out = wire.AppendPing(s.output.out, 0, st.pingContent())
		st.timer.Reset(GoAwayTime)
	case s.output.pendingLocked() > 0: // which may be the response
		st.timer.Reset(GoAwayTime)
	default:
		s.resetLocked(st, wire.NoError, errStreamClosed)
	}
	s.mu.Unlock()
	s.Flush()
	if s.IsIdle() {
		s.carrier.Update()
	}
}

func (st *Stream) pingContent() (content [8]byte) {
	binary.BigEndian.PutUint32(content[copy(content[:], earlyPing):], st.id)
	return content
}

// resetStream ends a stream because of a stream error (RFC 9113, 5.4.2). It reports whether the
// session continues: a client that causes many errors is a flood.
func (s *Session) resetStream(f *wire.Error) bool {
	if s.config.countError != nil {
		s.config.countError("stream_" + f.Code.String())
	}
	s.mu.Lock()
	st := s.streams[f.StreamID]
	if st != nil {
		s.resetLocked(st, f.Code, errStreamClosed)
	} else {
		s.output.reply(wire.AppendRSTStream(s.output.out, f.StreamID, f.Code))
		if f.Code != wire.StreamClosed { // the client may not know that the stream was refused
			s.expectLateLocked(s.config.streamWindow)
		}
	}
	flood := s.debitLocked(resetCost)
	s.mu.Unlock()
	if st != nil {
		st.abort()
	}
	if flood != nil {
		s.fail(flood)
	}
	return flood == nil
}

// resetCost is how many units of the ledger a stream costs that the client or the server resets.
// Its request was parsed in vain.
const resetCost = 2

// resetLocked resets an open or half-closed stream. Reads and writes fail with err.
func (s *Session) resetLocked(st *Stream, code wire.ErrorCode, err error) {
	s.output.reply(wire.AppendRSTStream(s.output.out, st.id, code))
	if !st.inEnded {
		s.expectLateLocked(st.window.Available())
	}
	s.dropStreamLocked(st, err)
}

// expectLateLocked is called when the server resets a stream that the client has not ended. What
// the client sends before it learns of that is no error.
func (s *Session) expectLateLocked(window int32) {
	s.lateBytes += int64(window)
	s.lateTrailers++
}

// closeLocked closes the stream. Reads and writes fail with err.
func (st *Stream) closeLocked(err error) {
	st.isClosed, st.err = true, err
	st.stopTimerLocked()
	st.session.dropWaitingLocked(st)
	exchange.Signal(st.readWake)
	exchange.Signal(st.writeWake)
}

func (st *Stream) stopTimerLocked() {
	if st.timer != nil {
		st.timer.Stop()
		st.timer = nil
	}
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

// endStreamsLocked ends all streams. Their contexts end in other goroutines, because a context's
// mutex precedes the session's.
func (s *Session) endStreamsLocked(err error) {
	for id, st := range s.streams {
		st.closeLocked(err)
		delete(s.streams, id)
		go st.abort()
	}
}

// fail ends the session because of a connection error (RFC 9113, 5.4.1). The streams end at once.
func (s *Session) fail(f *wire.Error) {
	if s.config.countError != nil {
		s.config.countError("conn_" + f.Code.String())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase < phaseEnded {
		s.output.out = wire.AppendGoAway(s.output.out, s.lastID, f.Code)
		s.endingAt = time.Now()
		s.endStreamsLocked(errClientLeft)
		s.phase = phaseEnded
	}
}

// Closed is called when the connection has ended. Handlers that still run learn of it.
func (s *Session) Closed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = phaseEnded
	s.output.failed = net.ErrClosed
	s.endStreamsLocked(errClientLeft)
}
