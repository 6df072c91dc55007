package h2

import (
	"bufio"
	"errors"
	"io"
	"net/http"

	wire "github.com/tarehq/tare/internal/wire/http2"
)

// input is what the goroutine that reads has received.
type input struct {
	reader    *bufio.Reader
	decoder   wire.Decoder
	fields    wire.HeaderBlock
	block     []byte           // of a HEADERS frame without END_HEADERS, with its CONTINUATIONs
	blockHead wire.FrameHeader // the header of that frame; zero if no CONTINUATION follows
}

// readBuffer holds a frame of the initial maximum size.
const readBuffer = wire.MinMaxFrameSize + wire.FrameHeaderSize

// read receives frames until the connection ends.
func (c *Conn) read() {
	c.input.reader = bufio.NewReaderSize(c.nc, readBuffer)
	for {
		err := c.readFrame()
		if err == nil {
			continue
		}
		if f := (*wire.Error)(nil); !errors.As(err, &f) {
			c.end(&Error{Kind: Closed, Err: err}, wire.NoError, false)
			return
		} else if f.StreamID == 0 {
			c.violate(f)
			return
		} else if !c.resetStream(f) {
			return
		}
	}
}

// readFrame receives a frame and processes it.
func (c *Conn) readFrame() error {
	head, err := c.receive(wire.FrameHeaderSize)
	if err != nil {
		return err
	}
	h, _ := wire.ParseFrameHeader(head)
	// hasArrived needs no lock: only this goroutine changes it
	f := h.CheckOrder(c.peer.hasArrived, c.input.blockHead.StreamID)
	if f == nil {
		f = h.Check(c.config.MaxFrameSize)
	}
	if f != nil && f.StreamID == 0 {
		return f
	}
	if h.Type == wire.Data {
		return c.readData(h)
	}
	payload, err := c.receive(int(h.Length))
	if err != nil {
		return err
	}
	if f == nil {
		f = c.process(h, payload)
	}
	if f != nil {
		return f
	}
	return nil
}

// receive returns the next n bytes, which are valid until the next call. A frame that exceeds the
// buffer has memory of its own.
func (c *Conn) receive(n int) (b []byte, err error) {
	r := c.input.reader
	if n > readBuffer {
		b = make([]byte, n)
		_, err = io.ReadFull(r, b)
		return b, err
	}
	b, err = r.Peek(n)
	_, _ = r.Discard(len(b)) // they are buffered
	return b, err
}

// process handles a complete frame except DATA.
func (c *Conn) process(h wire.FrameHeader, payload []byte) *wire.Error {
	switch h.Type {
	case wire.Headers:
		return c.onHeaders(h, payload)
	case wire.Continuation:
		return c.onContinuation(h, payload)
	}
	c.mu.Lock()
	c.arrivedLocked(h.Type, h.StreamID)
	var f *wire.Error
	switch h.Type {
	case wire.Settings:
		f = c.onSettingsLocked(h, payload)
	case wire.Ping:
		f = c.onPingLocked(h, payload)
	case wire.GoAway:
		c.mu.Unlock()
		return c.onGoAway(payload)
	case wire.RSTStream:
		c.mu.Unlock()
		return c.onReset(h, payload)
	case wire.WindowUpdate:
		f = c.onWindowUpdateLocked(h, payload)
	default:
		f = c.debitLocked(1)
	}
	if f == nil && c.output.replies > maxReplies {
		f = wire.ConnError(wire.EnhanceYourCalm, "replies are not read")
	}
	c.mu.Unlock()
	return f
}

func (c *Conn) debitLocked(n int) *wire.Error {
	if !c.ledger.Debit(n) {
		return wire.ConnError(wire.EnhanceYourCalm, "too many frames without a purpose")
	}
	return nil
}

// resetStream ends a stream because of a stream error (RFC 9113, 5.4.2). It reports whether the
// connection continues.
func (c *Conn) resetStream(f *wire.Error) bool {
	if c.config.CountError != nil {
		c.config.CountError("stream_" + f.Code.String())
	}
	c.mu.Lock()
	st := c.streams[f.StreamID]
	var fault *wire.Error
	if st == nil {
		fault = c.debitLocked(1)
	} else {
		e := &Error{Kind: Malformed, Err: f}
		if f.What == tooShort {
			e.Err = cutOffError{f}
		}
		st.failLocked(e)
		st.resetLocked(f.Code)
	}
	c.mu.Unlock()
	if fault != nil {
		c.violate(fault)
	} else if st != nil {
		st.notifyClosed(true)
	}
	return fault == nil
}

// readData receives a DATA frame, whose content takes effect as it arrives (RFC 9113, 6.1).
func (c *Conn) readData(h wire.FrameHeader) error {
	r, first := c.input.reader, 0
	if h.Flags.Has(wire.Padded) && h.Length > 0 {
		first = 1
	}
	b, err := c.receive(first)
	if err != nil {
		return err
	}
	left, padding, fault := wire.PaddingOf(h, b)
	if fault != nil {
		return fault
	}
	st, fault := c.startData(h, left)
	if fault != nil && fault.StreamID == 0 {
		return fault
	}
	for left > 0 {
		if _, err := r.Peek(1); err != nil {
			return err
		}
		part, _ := c.receive(min(left, r.Buffered()))
		c.storeData(h, st, part)
		left -= len(part)
	}
	if _, err := r.Discard(padding); err != nil {
		return err
	}
	if fault != nil {
		return fault
	}
	if st != nil && h.Flags.Has(wire.EndStream) {
		if f := c.endInput(st, nil); f != nil {
			return f
		}
	}
	return nil
}

// startData begins a DATA frame with size bytes of content. The stream is nil if they are dropped.
func (c *Conn) startData(h wire.FrameHeader, size int) (*Stream, *wire.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrivedLocked(h.Type, h.StreamID)
	st := c.streams[h.StreamID]
	overhead := int(h.Length) - size
	switch {
	case st == nil && (h.StreamID >= c.nextID || h.StreamID&1 == 0):
		return nil, wire.ConnError(wire.ProtocolError, "DATA on an idle stream")
	case !c.window.Take(int(h.Length)):
		return nil, wire.ConnError(wire.FlowControlError, "connection window exceeded")
	case !c.ledger.DebitData(size, overhead) || size == 0 && !c.ledger.Debit(1):
		return nil, wire.ConnError(wire.EnhanceYourCalm, "too many small DATA frames")
	case size > 0:
		c.ledger.CreditContent()
	}
	c.returnLocked(overhead)
	if st == nil {
		if c.lateBytes -= int64(h.Length); c.lateBytes < 0 || h.Length == 0 {
			c.lateBytes = max(0, c.lateBytes)
			return nil, c.debitLocked(1)
		}
		return nil, nil
	}
	st.bytesIn += int64(wire.FrameHeaderSize) + int64(h.Length)
	if f := st.checkDataLocked(h, size); f != nil {
		return nil, f
	}
	if overhead > 0 {
		if more := st.window.Return(overhead); more > 0 {
			c.replyLocked(wire.AppendWindowUpdate(c.output.buf, st.id, more))
		}
	}
	if st.left >= 0 {
		st.left -= int64(size)
	}
	return st, nil
}

// checkDataLocked checks a DATA frame with size bytes of content.
func (st *Stream) checkDataLocked(h wire.FrameHeader, size int) *wire.Error {
	switch {
	case !st.hasHead:
		return wire.StreamError(st.id, wire.ProtocolError, "DATA before HEADERS")
	case st.inEnded:
		return wire.StreamError(st.id, wire.StreamClosed, "DATA after END_STREAM")
	case !st.window.Take(int(h.Length)):
		return wire.StreamError(st.id, wire.FlowControlError, "stream window exceeded")
	case st.hasNoBody && size > 0:
		return wire.StreamError(st.id, wire.ProtocolError, "content in a response that has none")
	case st.left >= 0 && int64(size) > st.left:
		return wire.StreamError(st.id, wire.ProtocolError, "content longer than Content-Length")
	}
	return nil
}

// returnLocked returns n bytes of the connection's window to the peer.
func (c *Conn) returnLocked(n int) {
	if n > 0 {
		if more := c.window.Return(n); more > 0 {
			c.replyLocked(wire.AppendWindowUpdate(c.output.buf, 0, more))
		}
	}
}

// storeData delivers content, or stores it for the goroutine that receives it.
func (c *Conn) storeData(h wire.FrameHeader, st *Stream, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrivedLocked(h.Type, h.StreamID)
	if st != nil && st.deliverLocked(b) {
		return
	}
	if st == nil || st.isClosed {
		c.returnLocked(len(b))
		if st != nil {
			signal(st.received) // the stream may have failed during deliverLocked
		}
		return
	}
	st.content.add(c.config, b)
	signal(st.received)
}

// endInput ends the response.
func (c *Conn) endInput(st *Stream, trailer http.Header) *wire.Error {
	c.mu.Lock()
	if st.isClosed {
		c.mu.Unlock()
		return nil
	}
	if st.left > 0 && !st.hasNoBody {
		c.mu.Unlock()
		return wire.StreamError(st.id, wire.ProtocolError, tooShort)
	}
	st.inEnded, st.trailer = true, trailer
	closed := st.closeIfEndedLocked()
	c.mu.Unlock()
	st.notifyClosed(closed)
	signal(st.received)
	return nil
}
