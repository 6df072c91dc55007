package h2

import (
	"os"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// GoAwayTime is how long an announced end waits for the client's acknowledgment, and how long an
// ended connection stays open for the client to read the last frames.
const GoAwayTime = time.Second

// The contents of the server's PINGs: of one that follows the first GOAWAY, and of one that checks
// whether the client is there.
const (
	goAwayPing = "shutdown"
	alivePing  = "is alive"
)

// pingState is the check whether a silent client is still there (http.HTTP2Config.SendPingTimeout).
type pingState struct {
	receivedAt time.Time // when the last frame arrived
	sentAt     time.Time // zero if no PING is unacknowledged
}

// earliest returns the earlier of at, which may be zero, and the end of a limit. A limit of zero
// never ends.
func earliest(at, start time.Time, limit time.Duration) time.Time {
	if end := start.Add(limit); limit > 0 && (at.IsZero() || end.Before(at)) {
		return end
	}
	return at
}

// WaitDeadline returns when Expire must be called if nothing happens before; zero for never.
func (s *Session) WaitDeadline() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.closeDeadlineLocked()
	if s.awaitsRequestLocked() {
		at = earliest(at, s.idleAt, s.config.Exchanges.IdleTimeout)
	}
	if s.ping.sentAt.IsZero() {
		at = earliest(at, s.ping.receivedAt, s.config.SendPingTimeout)
	}
	if s.phase == phaseAnnounced {
		at = earliest(at, s.endingAt, GoAwayTime)
	}
	return at
}

// closeDeadlineLocked returns when the connection must be closed; zero for never.
func (s *Session) closeDeadlineLocked() (at time.Time) {
	p := s.config.Exchanges
	switch {
	case !s.isOpen:
		at = earliest(at, s.started, p.HeadTimeout)
	case !s.headStarted.IsZero():
		at = earliest(at, s.headStarted, p.HeadTimeout)
	}
	if stalledAt := s.output.stalledAt; !stalledAt.IsZero() {
		at = earliest(at, stalledAt, s.stallLimitLocked())
	}
	if !s.ping.sentAt.IsZero() {
		at = earliest(at, s.ping.sentAt, s.config.pingTimeout)
	}
	if s.phase == phaseEnded && !s.endingAt.IsZero() {
		at = earliest(at, s.endingAt, GoAwayTime)
	}
	return at
}

// SendLimit returns how long the client may accept nothing; 0 for no limit.
func (s *Session) SendLimit() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sendLimitLocked()
}

func (s *Session) sendLimitLocked() time.Duration {
	if s.ownDeadline { // which replaces WriteTimeout
		return s.config.sendLimit(0)
	}
	return s.config.SendLimit()
}

// stallLimitLocked is SendLimit for a session that may have ended.
func (s *Session) stallLimitLocked() time.Duration {
	if limit := s.sendLimitLocked(); limit > 0 || s.phase < phaseEnded {
		return limit
	}
	return s.config.Exchanges.HeadTimeout
}

// awaitsRequestLocked reports whether the session is idle and accepts requests.
func (s *Session) awaitsRequestLocked() bool { return s.phase < phaseDraining && s.isIdleLocked() }

// Expire is called when WaitDeadline has passed. It reports whether the connection must be closed
// now.
func (s *Session) Expire() (closes bool) {
	var ended []*Stream
	s.mu.Lock()
	switch {
	case exchange.IsPast(s.closeDeadlineLocked()):
		s.drainLocked()
		closes = true
		if at := s.output.stalledAt; !at.IsZero() && exchange.IsPast(earliest(time.Time{}, at, s.stallLimitLocked())) {
			ended = s.endStreamsLocked(os.ErrDeadlineExceeded) // which is why their handlers cannot write
		}
	case s.phase == phaseAnnounced && time.Since(s.endingAt) >= GoAwayTime:
		s.drainLocked()
	case s.awaitsRequestLocked() && exchange.IsPast(earliest(time.Time{}, s.idleAt, s.config.Exchanges.IdleTimeout)):
		if s.output.pendingLocked() > 0 { // the client still receives the last response
			s.idleAt = time.Now()
			break
		}
		// A client that is sending a request learns that it was not processed. If the connection
		// were closed now, GOAWAY could be lost.
		s.drainLocked()
	case s.config.SendPingTimeout > 0 && s.ping.sentAt.IsZero():
		s.ping.sentAt = time.Now()
		s.output.out = wire.AppendPing(s.output.out, 0, [8]byte([]byte(alivePing)))
	}
	s.mu.Unlock()
	cancelAll(ended)
	s.Flush()
	return closes
}

// Shutdown begins an orderly end (RFC 9113, 6.8). The caller then flushes.
func (s *Session) Shutdown() {
	s.mu.Lock()
	s.announceLocked()
	if s.phase == phaseAnnounced && time.Since(s.endingAt) >= GoAwayTime {
		s.drainLocked()
	}
	s.mu.Unlock()
}

// announceLocked announces that the server will soon accept no more streams.
func (s *Session) announceLocked() {
	if s.phase != phaseOpen {
		return
	}
	s.phase, s.endingAt = phaseAnnounced, time.Now()
	s.output.out = wire.AppendGoAway(s.output.out, wire.MaxStreamID, wire.NoError)
	s.output.out = wire.AppendPing(s.output.out, 0, [8]byte([]byte(goAwayPing)))
}

// drainLocked accepts no more streams.
func (s *Session) drainLocked() {
	if s.phase > phaseAnnounced {
		return
	}
	s.phase = phaseDraining
	s.output.out = wire.AppendGoAway(s.output.out, s.lastID, wire.NoError)
	s.endIfDrainedLocked()
}

// endIfDrainedLocked ends a draining session without streams. The client has time to receive the
// last responses, and GoAwayTime begins when all of them were sent.
func (s *Session) endIfDrainedLocked() {
	if s.phase == phaseDraining && s.isIdleLocked() {
		s.phase, s.endingAt = phaseEnded, time.Time{}
	}
}
