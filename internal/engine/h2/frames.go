package h2

import (
	"encoding/binary"
	"time"

	wire "github.com/tarehq/tare/internal/wire/http2"
)

// frame is a frame that has arrived.
type frame struct {
	wire.FrameHeader
	content []byte
}

// The frames that do not carry a request's head or body.

func (s *Session) onSettingsLocked(fr frame) *wire.Error {
	if fr.Flags.Has(wire.Ack) {
		return s.debitLocked(1)
	}
	initial, largest := s.initialWindow, s.initialWindow
	for set := range wire.SettingsOf(fr.content) {
		if err := set.Check(); err != nil {
			return err
		}
		if set.ID == wire.InitialWindowSize {
			initial = int32(set.Value)
			largest = max(largest, initial)
		}
	}
	cost := 1
	if largest != s.initialWindow || initial != largest {
		cost += len(s.streams) / resizesPerUnit
		if !s.resizeWindowsLocked(initial, largest) {
			return wire.ConnError(wire.FlowControlError, "window too large")
		}
	}
	s.isOpen = true
	s.output.unacked++
	s.acknowledgeSettingsLocked()
	return s.debitLocked(cost)
}

// resizesPerUnit is how many windows of streams a frame resizes for a unit of the ledger.
const resizesPerUnit = 256

// resizeWindowsLocked applies the initial window of streams that a frame has set last. largest is
// the largest that it has set. resizeWindowsLocked reports false if a window would have become too
// large. A frame with a hundred values visits the streams once, too.
//
// The client's other settings do not matter: all heads are encoded without its decoder's table and
// announce that, and frames of the initial size suffice.
func (s *Session) resizeWindowsLocked(initial, largest int32) bool {
	by, most := int64(initial)-int64(s.initialWindow), int64(largest)-int64(s.initialWindow)
	s.initialWindow = initial
	for _, st := range s.streams {
		if int64(st.sendWindow)+most > wire.MaxWindow {
			return false
		}
		st.sendWindow += int32(by)
	}
	return true
}

func (s *Session) onPingLocked(fr frame) *wire.Error {
	data := [8]byte(fr.content)
	if !fr.Flags.Has(wire.Ack) {
		s.output.reply(wire.AppendPing(s.output.out, wire.Ack, data))
	} else if s.acknowledgeLocked(data) {
		return nil
	}
	return s.debitLocked(1)
}

// acknowledgeLocked handles the acknowledgment of a PING. It reports whether it was awaited.
func (s *Session) acknowledgeLocked(data [8]byte) bool {
	st := s.streams[binary.BigEndian.Uint32(data[len(earlyPing):])]
	switch {
	case string(data[:]) == goAwayPing && s.phase == phaseAnnounced:
		s.drainLocked()
	case string(data[:]) == alivePing && !s.pingedAt.IsZero():
		s.pingedAt = time.Time{}
	case st != nil && st.isPinged && data == st.pingContent():
		s.resetLocked(st, wire.NoError, errStreamClosed)
	default:
		return false
	}
	return true
}

func (s *Session) onRSTStream(fr frame) *wire.Error {
	if s.isIdleStream(fr.StreamID) {
		return wire.ConnError(wire.ProtocolError, "RST_STREAM on an idle stream")
	}
	s.mu.Lock()
	st := s.streams[fr.StreamID]
	isOpen := st != nil && !st.isClosed
	if st != nil {
		s.dropStreamLocked(st, errStreamClosed)
	}
	s.mu.Unlock()
	if !isOpen {
		return s.debit(1)
	}
	st.abort()
	return s.debit(resetCost)
}

func (s *Session) onWindowUpdateLocked(fr frame) *wire.Error {
	if s.isIdleStream(fr.StreamID) {
		return wire.ConnError(wire.ProtocolError, "WINDOW_UPDATE on an idle stream")
	}
	by, err := wire.WindowUpdateOf(fr.FrameHeader, fr.content)
	st := s.streams[fr.StreamID]
	switch {
	case fr.StreamID == 0 && err != nil:
		return err
	case fr.StreamID == 0 && !wire.GrowWindow(&s.sendWindow, int64(by)):
		return wire.ConnError(wire.FlowControlError, "window too large")
	case st == nil: // for the connection, or for a stream that has ended
	case err != nil:
		return err
	case !wire.GrowWindow(&st.sendWindow, int64(by)):
		return wire.StreamError(fr.StreamID, wire.FlowControlError, "window too large")
	}
	if !s.ledger.DebitUpdate() {
		return wire.ConnError(wire.EnhanceYourCalm, "too many WINDOW_UPDATEs")
	}
	s.grantLocked()
	return nil
}

// onPriorityLocked ignores a PRIORITY frame except for its errors (RFC 9113, 5.3.2).
func (s *Session) onPriorityLocked(fr frame) *wire.Error {
	if err := wire.CheckPriority(fr.FrameHeader, fr.content); err != nil {
		return err
	}
	return s.debitLocked(1)
}

// onPriorityUpdateLocked changes a stream's priority (RFC 9218, 7.1).
func (s *Session) onPriorityUpdateLocked(fr frame) *wire.Error {
	id, value, err := wire.PriorityUpdateOf(fr.content)
	if err != nil {
		return err
	}
	if st := s.streams[id]; st != nil {
		st.prioritizeLocked(value)
	}
	return s.debitLocked(1)
}
