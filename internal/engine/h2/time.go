package h2

import (
	"os"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// The contents of the server's PINGs: of one that follows the first GOAWAY, and of one that checks
// whether the client is there.
const (
	goAwayPing = "shutdown"
	alivePing  = "is alive"
)

// expiry is what a session does if nothing has happened for too long.
type expiry uint8

const (
	expiryClose expiry = iota // closes the connection
	expiryStall               // closes it, and tells handlers that the client has accepted nothing
	expiryDrain               // accepts no more streams, as announced
	expiryIdle                // accepts no more streams, because the client has requested nothing
	expiryPing                // checks whether the client is still there
)

// nextExpiryLocked returns what happens next if nothing else does, and when; zero for never.
func (s *Session) nextExpiryLocked() (at time.Time, what expiry) {
	after := func(start time.Time, limit time.Duration, then expiry) {
		if limit <= 0 || start.IsZero() {
			return
		}
		if end := start.Add(limit); at.IsZero() || end.Before(at) {
			at, what = end, then
		}
	}
	p := s.config.Exchanges
	after(s.headStarted, p.HeadTimeout, expiryClose)
	after(s.output.stalledAt, s.sendLimitLocked(), expiryStall)
	switch s.phase {
	case phaseAnnounced:
		after(s.endingAt, GoAwayTime, expiryDrain)
	case phaseEnded:
		after(s.endingAt, GoAwayTime, expiryClose)
	}
	if s.phase < phaseDraining && s.isIdleLocked() {
		after(s.idleAt, p.IdleTimeout, expiryIdle)
	}
	if s.pingedAt.IsZero() {
		after(s.receivedAt, s.config.SendPingTimeout, expiryPing)
	} else {
		after(s.pingedAt, s.config.pingTimeout, expiryClose)
	}
	return at, what
}

// WaitDeadline returns when Expire must be called if nothing happens before; zero for never.
func (s *Session) WaitDeadline() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, _ := s.nextExpiryLocked()
	return at
}

// SendLimit returns how long the client may accept nothing; 0 for no limit.
func (s *Session) SendLimit() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sendLimitLocked()
}

func (s *Session) sendLimitLocked() time.Duration {
	writeTimeout := s.config.Exchanges.WriteTimeout
	if s.ownDeadline {
		writeTimeout = 0
	}
	limit := s.config.SendLimit(writeTimeout)
	if limit == 0 && s.phase == phaseEnded {
		return s.config.Exchanges.HeadTimeout
	}
	return limit
}

// Expire does what is due, if anything is. It reports whether the connection must be closed now.
func (s *Session) Expire() (closes bool) {
	s.mu.Lock()
	switch at, what := s.nextExpiryLocked(); {
	case !exchange.IsPast(at):
	case what == expiryPing:
		s.pingedAt = time.Now()
		s.output.out = wire.AppendPing(s.output.out, 0, [8]byte([]byte(alivePing)))
	case what == expiryIdle && s.output.pendingLocked() > 0: // the client still receives the last response
		s.idleAt = time.Now()
	default:
		// Also an idle session drains first: a client that is sending a request learns that it was not
		// processed. If the connection were closed now, GOAWAY could be lost.
		s.drainLocked()
		closes = what == expiryClose || what == expiryStall
		if what == expiryStall {
			s.endStreamsLocked(os.ErrDeadlineExceeded) // which is why their handlers cannot write
		}
	}
	s.mu.Unlock()
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
