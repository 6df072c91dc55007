package h2

import (
	"net/http"
	"time"

	"github.com/tarehq/tare/internal/poison"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// Receive processes input that has arrived, and keeps none of it. It reports false if the session
// has ended. The caller holds the turn.
func (s *Session) Receive(in []byte) bool {
	if isOpen, f := s.beginReceive(); !isOpen || f != nil && !s.reject(f) {
		return false
	}
	for rest := in; len(rest) > 0; {
		var f *wire.Error
		if rest, f = s.receiveSome(rest); f != nil && !s.reject(f) {
			return false
		}
	}
	poison.Fill(in)
	i := &s.input
	isWaiting := len(i.partial) > 0 || i.block != nil
	if isWaiting || !s.headStarted.IsZero() || s.config.SendPingTimeout > 0 {
		s.noteArrival(isWaiting)
	}
	i.hasCompleted = false
	if len(i.partial) == 0 {
		i.partial = nil // an idle session keeps no buffer
	}
	return true
}

// noteArrival records when input has arrived, and whether it ends in an incomplete frame or block.
func (s *Session) noteArrival(isWaiting bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !isWaiting && s.isOpen:
		s.headStarted, s.receivedAt = time.Time{}, now
	case s.headStarted.IsZero() || s.input.hasCompleted && s.input.block == nil:
		s.headStarted = now
	}
}

// beginReceive reports whether the session continues, and provides a buffer for replies. It fails
// if too many wait.
func (s *Session) beginReceive() (isOpen bool, f *wire.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == phaseEnded {
		return false, nil
	}
	if o := &s.output; o.out == nil && o.lent == nil {
		if o.lent, _ = s.config.buffers.Get().(*outBuffer); o.lent == nil {
			o.lent = &outBuffer{make([]byte, 0, firstOut)}
		}
		o.out = o.lent.b
	}
	return true, s.debitLocked(0)
}

// reject handles the error of a frame. It reports whether the session continues.
func (s *Session) reject(f *wire.Error) bool {
	if f.StreamID == 0 {
		s.reportPartial(http.StatusBadRequest)
		s.fail(f)
		return false
	}
	return s.resetStream(f)
}

// receiveSome processes the start of in and returns the rest.
func (s *Session) receiveSome(in []byte) (rest []byte, f *wire.Error) {
	i := &s.input
	switch {
	case i.prefix < len(wire.Preface):
		n := min(len(in), len(wire.Preface)-i.prefix)
		if string(in[:n]) != wire.Preface[i.prefix:i.prefix+n] {
			return in, wire.ConnError(wire.ProtocolError, "invalid preface")
		}
		i.prefix += n
		return in[n:], nil
	case i.data.left > 0:
		return s.receiveData(in), nil
	case i.skip > 0:
		n := min(len(in), i.skip)
		i.skip -= n
		return in[n:], nil
	}
	return s.receiveFrame(in)
}

// receiveFrame processes the frame that in begins with or continues.
func (s *Session) receiveFrame(in []byte) (rest []byte, f *wire.Error) {
	i := &s.input
	for {
		have := in
		if len(i.partial) > 0 {
			have = i.partial
		}
		size := wire.FrameHeaderSize
		h, ok := wire.ParseFrameHeader(have)
		if ok {
			f := h.CheckOrder(s.isOpen, i.blockHead.StreamID)
			if f == nil {
				f = h.Check(s.config.maxFrameSize)
			}
			if f != nil {
				return s.skipFrame(in, h), f
			}
			size += bufferedSize(h)
		}
		if len(have) < size {
			n := min(len(in), size-len(i.partial))
			i.partial = append(i.partial, in[:n]...)
			if in = in[n:]; len(i.partial) < size {
				return in, nil
			}
			continue
		}
		fr := frame{h, have[wire.FrameHeaderSize:size]}
		if len(i.partial) > 0 {
			f = s.process(fr)
			i.partial = i.partial[:0]
			return in, f
		}
		return in[size:], s.process(fr)
	}
}

// skipFrame ignores the frame whose header has arrived and was wrong, and returns what follows the
// header. An error of a stream does not end the connection.
func (s *Session) skipFrame(in []byte, h wire.FrameHeader) (rest []byte) {
	i := &s.input
	i.skip, i.hasCompleted = int(h.Length), true
	if len(i.partial) > 0 { // it is the header
		i.partial = i.partial[:0]
		return in
	}
	return in[wire.FrameHeaderSize:]
}

// bufferedSize returns how much of a frame's payload must have arrived before it is processed. The
// rest is processed as it arrives.
func bufferedSize(h wire.FrameHeader) int {
	switch h.Type {
	case wire.Data:
		if h.Flags.Has(wire.Padded) && h.Length > 0 {
			return 1
		}
		return 0
	case wire.GoAway:
		return 0
	}
	if h.Type > wire.Continuation && h.Type != wire.PriorityUpdate {
		return 0 // an extension that the server does not know
	}
	return int(h.Length)
}

// process handles a complete frame, or the start of a DATA frame.
func (s *Session) process(fr frame) *wire.Error {
	s.input.hasCompleted = true
	switch fr.Type {
	case wire.Headers:
		return s.onHeaders(fr)
	case wire.Continuation:
		return s.onContinuation(fr)
	case wire.RSTStream:
		return s.onRSTStream(fr)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch fr.Type {
	case wire.Data:
		return s.startDataLocked(fr)
	case wire.Settings:
		return s.onSettingsLocked(fr)
	case wire.Ping:
		return s.onPingLocked(fr)
	case wire.WindowUpdate:
		return s.onWindowUpdateLocked(fr)
	case wire.Priority:
		return s.onPriorityLocked(fr)
	case wire.PriorityUpdate:
		return s.onPriorityUpdateLocked(fr)
	case wire.GoAway: // the client is about to leave, as net/http understands it
		s.drainLocked()
	}
	s.input.skip = int(fr.Length) - len(fr.content)
	return s.debitLocked(1) // GOAWAY, or a frame of an extension that the server does not know
}

// startDataLocked begins a DATA frame (RFC 9113, 6.1). All of it counts for flow control.
func (s *Session) startDataLocked(fr frame) *wire.Error {
	content, padding, err := wire.PaddingOf(fr.FrameHeader, fr.content)
	if err != nil {
		return err
	}
	d := &s.input.data
	*d = dataState{left: content, ends: fr.Flags.Has(wire.EndStream)}
	s.input.skip = padding
	st := s.streams[fr.StreamID]
	if s.isIdleStream(fr.StreamID) {
		return wire.ConnError(wire.ProtocolError, "DATA on an idle stream")
	}
	if !s.window.Take(int(fr.Length)) {
		return wire.ConnError(wire.FlowControlError, "connection window exceeded")
	}
	overhead := int(fr.Length) - d.left
	if !s.ledger.DebitData(d.left, overhead) {
		return wire.ConnError(wire.EnhanceYourCalm, "too many small DATA frames")
	}
	if fault := s.checkDataLocked(st, fr, d.left); fault != nil || st == nil {
		s.input.skip, *d = d.left+padding, dataState{}
		s.returnWindowLocked(int(fr.Length))
		return fault
	}
	d.stream = st
	st.received += int64(d.left)
	if overhead > 0 && !st.isClosed {
		s.updateWindowLocked(st.id, st.window.Return(overhead))
	}
	s.returnWindowLocked(overhead) // consumeLocked returns the rest
	if d.left == 0 {
		s.endDataLocked()
	}
	return nil
}

// checkDataLocked checks a DATA frame with size bytes of content. If st is nil, the frame is
// dropped: the server has reset the stream, or has not served it, and the client did not know.
// Other frames of streams that have ended are errors.
func (s *Session) checkDataLocked(st *Stream, fr frame, size int) *wire.Error {
	switch late := int64(fr.Length); {
	case st == nil && fr.StreamID > s.lastID:
	case st == nil && s.lateBytes > 0 && s.lateBytes >= late:
		s.lateBytes -= late
	case st == nil || st.inEnded:
		return wire.StreamError(fr.StreamID, wire.StreamClosed, "DATA on a closed stream")
	case !st.window.Take(int(fr.Length)):
		return wire.StreamError(fr.StreamID, wire.FlowControlError, "stream window exceeded")
	case st.declared >= 0 && st.received+int64(size) > st.declared:
		return wire.StreamError(fr.StreamID, wire.ProtocolError, "body longer than Content-Length")
	case size == 0 && !fr.Flags.Has(wire.EndStream):
		return s.debitLocked(1)
	}
	return nil
}

// receiveData processes the part of the current DATA frame at the start of in.
func (s *Session) receiveData(in []byte) (rest []byte) {
	d := &s.input.data
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(in), d.left)
	if st := d.stream; !st.isClosed && !st.dropsBody {
		st.storeLocked(in[:n])
	} else {
		s.returnWindowLocked(n)
	}
	if d.left -= n; d.left == 0 {
		s.endDataLocked()
	}
	return in[n:]
}

func (s *Session) endDataLocked() {
	d := &s.input.data
	st, ends := d.stream, d.ends
	*d = dataState{}
	if ends {
		s.endInputLocked(st)
	}
}
