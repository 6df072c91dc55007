package h2

import (
	"time"

	"github.com/tarehq/tare/internal/poison"
)

// outputState is what a session has yet to send. Session.mu guards it.
type outputState struct {
	out       []byte     // complete frames
	replies   int        // how many bytes of out are not of responses, but caused by the client's frames
	sending   []byte     // frames that a goroutine sends now; nil if none does
	spare     []byte     // an empty buffer
	lent      *outBuffer // from Config.buffers, while the session is not idle
	unsent    []byte     // the part of a buffer that the connection did not accept
	base      []byte     // the buffer that unsent is the end of
	isSending bool
	isOver    bool      // carrier.End was called
	stalledAt time.Time // since when the connection has accepted nothing; zero if it does
	failed    error     // why nothing more can be sent
	reserved  int       // bytes of DATA that streams may append; see Stream.reserve
	waiting   []*Stream // that wait for windows or for room
}

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

// pendingLocked returns how many bytes wait.
func (o *outputState) pendingLocked() int {
	return len(o.out) + len(o.sending) + len(o.unsent) + o.reserved
}

// reply sets the output to out, which is the output with replies to the client's frames.
func (o *outputState) reply(out []byte) { o.replies, o.out = o.replies+len(out)-len(o.out), out }

// Flush sends the output. If the carrier does not block, neither does Flush: what the connection
// does not accept is sent by a later Flush. One goroutine sends at a time; the others only append.
func (s *Session) Flush() {
	s.mu.Lock()
	o := &s.output
	if o.isSending || len(o.out)+len(o.unsent) == 0 || o.failed != nil {
		if !o.isSending && len(o.out)+len(o.unsent) == 0 && len(s.streams) == 0 {
			s.returnBufferLocked() // what arrived needed no reply
		}
		isOver, isClean := s.isOverLocked(), o.failed == nil
		s.mu.Unlock()
		if isOver {
			s.carrier.End(isClean)
		}
		return
	}
	o.isSending = true
	if s.carrier.Blocks() {
		s.mu.Unlock()
		go s.send()
		return
	}
	s.mu.Unlock()
	s.send()
}

// send sends all output. Its caller has set isSending.
func (s *Session) send() {
	o := &s.output
	s.mu.Lock()
	for {
		if len(o.unsent) == 0 {
			o.base, o.out, o.spare = o.out, o.spare[:0], nil
			o.unsent, o.replies = o.base, 0
		}
		if len(o.unsent) == 0 || o.failed != nil {
			o.spare, o.base, o.unsent = o.base[:0], nil, nil
			break
		}
		o.sending, o.unsent = o.unsent, nil
		s.mu.Unlock()
		n, err := s.carrier.Send(o.sending)
		s.mu.Lock()
		rest := o.sending[n:]
		o.sending = nil
		if err != nil {
			o.failed = err
			s.phase = phaseEnded
			ended := s.endStreamsLocked(errClientLeft)
			o.out, o.spare, o.base = nil, nil, nil
			s.mu.Unlock()
			cancelAll(ended)
			s.mu.Lock()
			break
		}
		if n > 0 {
			o.stalledAt = time.Time{}
		}
		if len(rest) > 0 {
			o.unsent = rest
			if o.stalledAt.IsZero() {
				o.stalledAt = time.Now()
			}
			o.isSending = false
			s.grantLocked()
			s.mu.Unlock()
			s.carrier.AwaitRoom()
			s.carrier.Update() // the client must accept more in time
			return
		}
		poison.Fill(o.base)
		o.spare, o.base = o.base[:0], nil
		s.grantLocked()
	}
	if len(s.streams) == 0 {
		s.returnBufferLocked()
	}
	o.isSending = false
	isOver, isClean := s.isOverLocked(), o.failed == nil
	s.mu.Unlock()
	if isOver {
		s.carrier.End(isClean)
	}
}

// returnBufferLocked gives the empty buffers of an idle session to others.
func (s *Session) returnBufferLocked() {
	o := &s.output
	b := o.out
	if cap(b) < cap(o.spare) {
		b = o.spare
	}
	if o.lent != nil && cap(b) >= firstOut && cap(b) <= keptOut {
		o.lent.b = b[:0]
		s.config.buffers.Put(o.lent)
	}
	o.lent, o.out, o.spare = nil, nil, nil
}

// isOverLocked reports, once, that the session has ended and nothing is left to send.
func (s *Session) isOverLocked() bool {
	o := &s.output
	isOver := s.phase == phaseEnded && !o.isSending && !o.isOver && (o.failed != nil || len(o.out)+len(o.unsent) == 0)
	o.isOver = o.isOver || isOver
	return isOver
}
