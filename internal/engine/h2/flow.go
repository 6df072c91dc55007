package h2

import (
	"os"
	"slices"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// Flow control (RFC 9113, 5.2) and priorities (RFC 9218). A stream that wants to send DATA reserves
// bytes of both windows and room in the output. If there is not enough, it waits in a list, and
// grantLocked serves the most urgent stream first.

// mostReserved is how much a stream reserves at once. While others wait, incremental streams
// receive shareReserved.
const (
	mostReserved  = 64 << 10
	shareReserved = 16 << 10
)

// reserveLocked waits until the stream may send up to want bytes of DATA, and returns how many.
// With want 0 it waits for room only. The bytes reserved count as output until they are appended.
// Only the goroutine that writes the response calls it. It releases the mutex while it waits. If
// the write deadline passes, expire ends the wait.
func (st *Stream) reserveLocked(want int, timeout time.Duration) (n int, err error) {
	s, o := st.session, &st.session.output
	if err := st.writeErrorLocked(); err != nil || want == 0 && o.pendingLocked() < maxOut {
		return 0, err
	}
	st.wants, st.granted = want, false
	o.waiting = append(o.waiting, st)
	if s.grantLocked(); !st.granted && s.waiter != nil { // sending the output may make room
		s.mu.Unlock()
		s.Flush()
		s.mu.Lock()
	}
	if st.granted && st.writeErrorLocked() == nil {
		return st.reserved, nil
	}
	if st.writeWake == nil {
		st.writeWake = make(chan struct{}, 1)
	}
	wake := st.writeWake
	var stalled time.Time
	if timeout > 0 {
		stalled = time.Now().Add(timeout)
	}
	s.mu.Unlock()
	st.MayBlock()
	s.Flush()
	for {
		s.mu.Lock()
		err := st.writeErrorLocked()
		if st.granted && err == nil {
			return st.reserved, nil
		}
		if err == nil && exchange.IsPast(stalled) {
			err = os.ErrDeadlineExceeded
		}
		if err != nil {
			s.dropWaitingLocked(st)
			st.unreserveLocked() // the stream may have ended after it was served
			return 0, err
		}
		s.mu.Unlock()
		awaitUntil(wake, stalled)
	}
}

// MayBlock implements exchange.Transport: another goroutine takes over the turn or the loop.
func (st *Stream) MayBlock() {
	if st.host != nil {
		st.host.MayBlock()
	}
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

func awaitUntil(wake <-chan struct{}, until time.Time) {
	var passed <-chan time.Time
	if !until.IsZero() {
		passed = time.After(time.Until(until))
	}
	select {
	case <-wake:
	case <-passed:
	}
}

// grantLocked serves waiting streams, the most urgent first, as far as windows and room allow. While
// SETTINGS are not acknowledged, it serves none.
func (s *Session) grantLocked() {
	small := 0
	for len(s.output.waiting) > 0 && s.output.pendingLocked() < maxOut && s.output.unacked == 0 {
		next := s.mostUrgentLocked()
		if next < 0 {
			break
		}
		if !s.grantStreamLocked(next) {
			small++
		}
	}
	s.ledger.DebitPieces(small)
}

// mostUrgentLocked returns the index of the waiting stream that is served next, or -1 if the
// windows allow none.
func (s *Session) mostUrgentLocked() int {
	best, waiting := -1, s.output.waiting
	for i, st := range waiting {
		if st.wants > 0 && (st.sendWindow <= 0 || s.sendWindow <= 0) {
			continue
		}
		if best < 0 || st.precedes(waiting[best]) {
			best = i
		}
	}
	return best
}

// grantStreamLocked serves a waiting stream. It reports false if the client's windows permit only a
// small piece of what the stream wants to send.
func (s *Session) grantStreamLocked(at int) bool {
	o := &s.output
	st := o.waiting[at]
	o.waiting = slices.Delete(o.waiting, at, at+1) // which drops the reference
	n := min(st.wants, mostReserved, int(st.sendWindow), int(s.sendWindow))
	if n = max(n, 0); len(o.waiting) > 0 {
		n = min(n, shareReserved)
	}
	st.sendWindow -= int32(n)
	s.sendWindow -= int32(n)
	o.reserved += n
	st.reserved, st.granted = n, true
	exchange.Signal(st.writeWake)
	return !wire.IsSmallPiece(n, st.wants)
}

func (st *Stream) prioritizeLocked(value []byte) {
	if !st.session.config.IgnoresPriority {
		st.urgency, st.incremental = wire.ParsePriority(value)
	}
}

// precedes reports whether st is served before other, which has waited longer (RFC 9218, 10).
func (st *Stream) precedes(other *Stream) bool {
	if st.urgency != other.urgency {
		return st.urgency < other.urgency
	}
	return !st.incremental && (other.incremental || st.id < other.id)
}

func (s *Session) dropWaitingLocked(st *Stream) {
	if i := slices.Index(s.output.waiting, st); i >= 0 {
		s.output.waiting = slices.Delete(s.output.waiting, i, i+1)
	}
}

// unreserveLocked gives back what the stream has reserved and did not send. The stream's own window
// does not matter any more.
func (st *Stream) unreserveLocked() {
	st.session.sendWindow += int32(st.reserved)
	st.endReservationLocked()
}

func (st *Stream) endReservationLocked() {
	st.session.output.reserved -= st.reserved
	st.reserved = 0
	st.session.acknowledgeSettingsLocked()
}

// acknowledgeSettingsLocked acknowledges SETTINGS once no stream has reserved DATA by the windows
// before: what follows the acknowledgment must not exceed the new ones (RFC 9113, 6.9.3).
func (s *Session) acknowledgeSettingsLocked() {
	for o := &s.output; o.unacked > 0 && o.reserved == 0; o.unacked-- {
		o.reply(wire.AppendSettingsAck(o.out))
	}
	s.grantLocked()
}
