package h2

import (
	"slices"
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
//	reset ──GoAwayTime──▶ overdue ──DATA or HEADERS──▶ reset again
//
// RST_STREAM with NO_ERROR tells the client that it need not send the rest of the body (RFC 9113,
// 8.1). Clients such as curl 7.88 lose a response that they have not read when it arrives. A PING
// therefore follows the response, and RST_STREAM its acknowledgment.
//
// The frames that are under way meanwhile are dropped. Their bytes are returned to the connection's
// window and not to the stream's, so that the client cannot send more than the window of the stream
// allows. DATA or HEADERS on a closed stream is an error.

const (
	// earlyPing is the content of the PING that follows an early response.
	earlyPing = "response"
	// earlyGrace is how long a client has to end the stream itself, as many do when they have
	// received the response. curl receives for all transfers of a connection, and serves one after
	// another.
	earlyGrace = 100 * time.Millisecond
)

// endedStreams are the streams of a session that the server has ended before the client. Most
// sessions have none, and no memory for them.
type endedStreams struct {
	halfClosed []halfClosedStream // in the order of their responses
	timer      *time.Timer        // calls checkHalfClosed at checkAt; nil if there are none
	checkAt    time.Time
	pinged     int  // how many of them, the first ones, precede the PING
	isPinging  bool // the PING is not acknowledged

	// The last streams that the server has reset, the oldest first. What the client has sent before
	// it received the reset is no error.
	resets []resetStream
}

type halfClosedStream struct {
	stream *Stream
	since  time.Time
}

// resetStream is a stream that the server has reset.
type resetStream struct {
	id     uint32
	window int32 // what the client may have sent before it received the reset
	at     time.Time
}

func (s *Session) endedLocked() *endedStreams {
	if s.ended == nil {
		s.ended = new(endedStreams)
	}
	return s.ended
}

// halfCloseLocked is called when a response is complete and the client has not ended the request.
// The stream is in Session.streams.
func (s *Session) halfCloseLocked(st *Stream) {
	st.closeLocked(errStreamClosed)
	e := s.endedLocked()
	e.halfClosed = append(e.halfClosed, halfClosedStream{st, time.Now()})
	if e.timer == nil {
		e.checkAt = time.Now().Add(earlyGrace)
		e.timer = time.AfterFunc(earlyGrace, s.checkHalfClosed)
	}
}

// checkHalfClosed goes on with the half-closed streams whose time has come.
func (s *Session) checkHalfClosed() {
	s.mu.Lock()
	e := s.ended
	isDue := e.timer != nil && exchange.IsPast(e.checkAt) // else the client was quicker
	switch {
	case !isDue:
	case !e.isPinging:
		s.pingHalfClosedLocked()
	case s.output.pendingLocked() > 0: // which may be the response
		e.checkIn(GoAwayTime)
	default:
		s.resetPingedLocked()
	}
	s.mu.Unlock()
	if !isDue {
		return
	}
	s.Flush()
	if s.IsIdle() {
		s.carrier.Update()
	}
}

// checkIn makes checkHalfClosed run after a duration.
func (e *endedStreams) checkIn(d time.Duration) {
	e.checkAt = time.Now().Add(d)
	e.timer.Reset(d)
}

// pingHalfClosedLocked sends a PING for the streams that are half-closed for long enough.
func (s *Session) pingHalfClosedLocked() {
	e := s.ended
	e.pinged = 0
	for _, h := range e.halfClosed {
		if time.Since(h.since) < earlyGrace {
			break
		}
		e.pinged++
	}
	switch {
	case e.pinged > 0:
		e.isPinging = true
		s.output.out = wire.AppendPing(s.output.out, 0, [8]byte([]byte(earlyPing)))
		e.checkIn(GoAwayTime)
	case len(e.halfClosed) > 0:
		e.checkIn(earlyGrace - time.Since(e.halfClosed[0].since))
	default:
		s.dropAllHalfClosedLocked()
	}
}

// resetPingedLocked resets the streams that precede the PING.
func (s *Session) resetPingedLocked() {
	e := s.ended
	for _, h := range e.halfClosed[:e.pinged] {
		delete(s.streams, h.stream.id)
		s.output.reply(wire.AppendRSTStream(s.output.out, h.stream.id, wire.NoError))
		s.addResetLocked(h.stream.id, h.stream.window.Available())
	}
	e.halfClosed, e.isPinging = slices.Delete(e.halfClosed, 0, e.pinged), false
	s.pingHalfClosedLocked()
	s.checkIdleLocked()
}

// dropHalfClosedLocked removes a half-closed stream that has ended.
func (s *Session) dropHalfClosedLocked(st *Stream) {
	e := s.ended
	i := slices.IndexFunc(e.halfClosed, func(h halfClosedStream) bool { return h.stream == st })
	e.halfClosed = slices.Delete(e.halfClosed, i, i+1)
	if i < e.pinged {
		e.pinged--
	}
	s.checkIdleLocked()
}

// dropAllHalfClosedLocked ends the checks.
func (s *Session) dropAllHalfClosedLocked() {
	if e := s.ended; e != nil && e.timer != nil {
		e.timer.Stop()
		e.halfClosed, e.timer, e.isPinging = nil, nil, false
	}
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
		s.addResetLocked(f.StreamID, s.config.streamWindow)
	}
	s.mu.Unlock()
	if st != nil {
		st.abort()
	}
	if f := s.debit(resetCost); f != nil {
		s.fail(f)
		return false
	}
	return true
}

// resetCost is how many units of the ledger a stream costs that the client or the server resets.
// Its request was parsed in vain.
const resetCost = 2

// resetLocked resets an open or half-closed stream. Reads and writes fail with err.
func (s *Session) resetLocked(st *Stream, code wire.ErrorCode, err error) {
	s.output.reply(wire.AppendRSTStream(s.output.out, st.id, code))
	if !st.inEnded {
		s.addResetLocked(st.id, st.window.Available())
	}
	s.dropStreamLocked(st, err)
}

// leastResets and mostResets bound the number of reset streams. It is the number of streams that a
// client may open: it may have uploaded to as many, when the server responds to all of them early.
const (
	leastResets = 32
	mostResets  = 1024
)

func (s *Session) addResetLocked(id uint32, window int32) {
	e := s.endedLocked()
	e.resets = slices.DeleteFunc(e.resets, func(st resetStream) bool { return st.id == id })
	if len(e.resets) >= min(max(int(s.config.maxStreams), leastResets), mostResets) {
		e.resets = slices.Delete(e.resets, 0, 1)
	}
	e.resets = append(e.resets, resetStream{id, window, time.Now()})
}

// findReset returns a stream that the server has reset, or nil if it is not among the last ones.
func (e *endedStreams) findReset(id uint32) *resetStream {
	if e == nil {
		return nil
	}
	if i := slices.IndexFunc(e.resets, func(st resetStream) bool { return st.id == id }); i >= 0 {
		return &e.resets[i]
	}
	return nil
}

// isOverdue reports whether the client should have received the reset. Whatever it sends then is an
// error, which resets the stream again.
func (st *resetStream) isOverdue() bool { return time.Since(st.at) > GoAwayTime }

// dropDataLocked drops a DATA frame of a stream that the server has reset or not served. The client
// has sent it before it knew, unless it exceeds the window of the stream that was closed.
func (s *Session) dropDataLocked(fr frame, reset *resetStream) *wire.Error {
	d := &s.input.data
	s.input.skip, *d = d.left+d.pad, dataState{}
	s.returnWindowLocked(int(fr.Length))
	if reset == nil {
		return nil
	}
	isExcess := int64(fr.Length) > int64(reset.window)
	reset.window = max(0, reset.window-int32(fr.Length))
	if isExcess && !s.ledger.Debit(1) {
		return wire.ConnError(wire.EnhanceYourCalm, "too many DATA frames of a closed stream")
	}
	return nil
}
