package h2

import (
	"time"

	"github.com/tarehq/tare/internal/poison"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

const (
	// maxOut is how much output waits before streams that append more must wait.
	maxOut = 64 << 10
	// maxReplies is how many bytes of replies to a client's frames may wait. A client that sends PINGs
	// or small DATA frames and reads nothing exceeds it. Responses that wait for a slow client do not
	// count. An honest client that reads nothing receives no windows either, and stops before.
	maxReplies = 64 << 10
	// firstOut is the initial size of an output buffer, and keptOut the largest that is used again
	// by another session. An idle connection has none.
	firstOut = 4 << 10
	keptOut  = 2 * maxOut
)

func (o *outputState) pendingLocked() int { return o.unsentLocked() + o.reserved }

func (o *outputState) unsentLocked() int { return len(o.out) + len(o.sending) - o.sent }

// reply sets the output to out, which is the output with replies to the client's frames.
func (o *outputState) reply(out []byte) { o.replies, o.out = o.replies+len(out)-len(o.out), out }

// Flush sends the output. If the carrier does not block, neither does Flush: what the connection
// does not accept is sent by a later Flush. One goroutine sends at a time; the others only append.
func (s *Session) Flush() {
	s.mu.Lock()
	o := &s.output
	switch {
	case o.isSending:
		s.mu.Unlock()
	case o.unsentLocked() == 0:
		s.endSending() // what arrived needed no reply
	default:
		o.isSending = true
		s.mu.Unlock()
		if s.waiter == nil {
			go s.send(false)
		} else {
			s.send(false)
		}
	}
}

// send sends all output. Its caller has set isSending. If once is set, it leaves later output to
// another goroutine: there may always be more.
func (s *Session) send(once bool) {
	o := &s.output
	s.mu.Lock()
	for first := true; o.failed == nil; first = false {
		if once && !first && len(o.out) > 0 {
			s.mu.Unlock()
			go s.send(false)
			return
		}
		if o.sent == len(o.sending) {
			poison.Fill(o.sending)
			o.sending, o.out, o.sent, o.replies = o.out, o.sending[:0], 0, 0
		}
		if len(o.sending) == 0 {
			break
		}
		s.mu.Unlock()
		n, err := s.carrier.Send(o.sending[o.sent:])
		s.mu.Lock()
		o.sent += n
		if err != nil {
			o.failed = err
			s.phase = phaseEnded
			s.endStreamsLocked(errClientLeft)
			o.out, o.sending, o.sent = nil, nil, 0
			break
		}
		if n > 0 {
			o.stalledAt = time.Time{}
		}
		s.grantLocked()
		if o.sent < len(o.sending) {
			if o.stalledAt.IsZero() {
				o.stalledAt = time.Now()
			}
			o.isSending = false
			s.mu.Unlock()
			s.waiter.AwaitRoom()
			s.carrier.Update() // the client must accept more in time
			return
		}
	}
	s.endSending()
}

// endSending is called when nothing is left to send, or cannot be sent. It releases the mutex, which
// the caller holds, and ends the carrier of a session that is over.
func (s *Session) endSending() {
	o := &s.output
	o.isSending = false
	if o.unsentLocked() == 0 && len(s.streams) == 0 {
		s.returnBufferLocked()
	}
	isClean := o.failed == nil
	isOver := s.phase == phaseEnded && !o.isOver
	if isOver {
		o.isOver, s.endingAt = true, time.Now()
	}
	s.mu.Unlock()
	if isOver {
		s.carrier.End(isClean)
	}
}

// returnBufferLocked gives the empty buffers of an idle session to others.
func (s *Session) returnBufferLocked() {
	o := &s.output
	b := o.out
	if cap(b) < cap(o.sending) {
		b = o.sending
	}
	if o.lent != nil && cap(b) >= firstOut && cap(b) <= keptOut {
		o.lent.b = b[:0]
		s.config.buffers.Put(o.lent)
	}
	o.lent, o.out, o.sending, o.sent = nil, nil, nil, 0
}

// outBuffer wraps a slice, so that the pool stores a pointer.
type outBuffer struct{ b []byte }

func (s *Session) debit(n int) *wire.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.debitLocked(n)
}

func (s *Session) debitLocked(n int) *wire.Error {
	switch {
	case !s.ledger.Debit(n):
		return wire.ConnError(wire.EnhanceYourCalm, "too many frames without a purpose")
	case s.output.replies > maxReplies:
		return wire.ConnError(wire.EnhanceYourCalm, "replies are not read")
	}
	return nil
}
