package h2

import (
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// The frames that do not carry a response's head or body.

// resizesPerUnit is how many windows of streams a frame resizes for a unit of the ledger.
const resizesPerUnit = 256

func (c *Conn) onSettingsLocked(h wire.FrameHeader, payload []byte) *wire.Error {
	if h.Flags.Has(wire.Ack) {
		return c.debitLocked(1)
	}
	p := &c.peer
	initial := p.initialWindow
	if !p.hasArrived {
		p.maxStreams = 1<<32 - 1
	}
	for s := range wire.SettingsOf(payload) {
		if f := s.Check(); f != nil {
			return f
		}
		switch s.ID {
		case wire.MaxConcurrentStreams:
			p.maxStreams = s.Value
		case wire.InitialWindowSize:
			initial = int32(s.Value)
		case wire.MaxHeaderListSize:
			p.maxHeadList = s.Value
		case wire.EnablePush:
			if s.Value != 0 {
				return wire.ConnError(wire.ProtocolError, "SETTINGS_ENABLE_PUSH of a server")
			}
		case wire.EnableConnectProtocol:
			p.extendedConnect = p.extendedConnect || s.Value == 1
		}
	}
	if !p.hasArrived && c.err == nil {
		close(p.arrival)
	}
	p.hasArrived = true
	if by := int64(initial) - int64(p.initialWindow); by != 0 {
		p.initialWindow = initial
		for _, st := range c.streams {
			if !wire.GrowWindow(&st.sendWindow, by) {
				return wire.ConnError(wire.FlowControlError, "window too large")
			}
		}
		c.wakeSendersLocked()
	}
	c.replyLocked(wire.AppendSettingsAck(c.output.buf)) // then checkRoomLocked is called
	return c.debitLocked(1 + len(c.streams)/resizesPerUnit)
}

func (c *Conn) onPingLocked(h wire.FrameHeader, payload []byte) *wire.Error {
	if h.Flags.Has(wire.Ack) {
		if c.health.isAwaiting && string(payload) == healthPing {
			c.health.isAwaiting = false
			return nil
		}
		return c.debitLocked(1)
	}
	c.replyLocked(wire.AppendPing(c.output.buf, wire.Ack, [8]byte(payload)))
	return c.debitLocked(1)
}

// onReset ends a stream that the peer has reset. As in net/http, the connection accepts no more
// streams if the peer's view of it differs.
func (c *Conn) onReset(h wire.FrameHeader, payload []byte) *wire.Error {
	code := wire.RSTStreamOf(payload)
	isProtocol := code == wire.ProtocolError
	if isProtocol {
		c.drain()
	}
	c.mu.Lock()
	st := c.streams[h.StreamID]
	if st == nil {
		defer c.mu.Unlock()
		if h.StreamID >= c.nextID || h.StreamID&1 == 0 {
			return wire.ConnError(wire.ProtocolError, "RST_STREAM on an idle stream")
		}
		return c.debitLocked(1)
	}
	st.failLocked(&Error{Kind: Rejected, IsUnprocessed: code == wire.RefusedStream, MayExceedLimit: isProtocol,
		Err: ResetError{h.StreamID, code}})
	st.closeLocked()
	c.mu.Unlock()
	if c.config.CountError != nil {
		c.config.CountError("recv_rststream_" + code.String())
	}
	st.notifyClosed(true)
	return nil
}

func (c *Conn) onWindowUpdateLocked(h wire.FrameHeader, payload []byte) *wire.Error {
	by, f := wire.WindowUpdateOf(h, payload)
	st := c.streams[h.StreamID]
	switch {
	case h.StreamID >= c.nextID || h.StreamID > 0 && h.StreamID&1 == 0:
		return wire.ConnError(wire.ProtocolError, "WINDOW_UPDATE on an idle stream")
	case h.StreamID == 0 && f != nil:
		return f
	case h.StreamID == 0:
		if !wire.GrowWindow(&c.sendWindow, int64(by)) {
			return wire.ConnError(wire.FlowControlError, "window too large")
		}
		c.wakeSendersLocked()
	case st == nil: // for a stream that has ended
	case f != nil:
		return f
	case !wire.GrowWindow(&st.sendWindow, int64(by)):
		return wire.StreamError(h.StreamID, wire.FlowControlError, "window too large")
	default:
		signal(st.mayProceed)
	}
	if !c.ledger.DebitUpdate() {
		return wire.ConnError(wire.EnhanceYourCalm, "too many WINDOW_UPDATEs")
	}
	return nil
}

// onGoAway ends the streams that the peer will not process. The others continue (RFC 9113, 6.8).
func (c *Conn) onGoAway(payload []byte) *wire.Error {
	last, code, _ := wire.GoAwayOf(payload)
	if code != wire.NoError && c.config.CountError != nil {
		c.config.CountError("recv_goaway_" + code.String())
	}
	c.mu.Lock()
	f := c.debitLocked(1)
	if c.goAway != nil {
		last = min(last, c.goAway.last)
	}
	c.goAway = &goAwayError{last: last, code: code}
	c.isClosing = true // a request that is sent again at once needs another connection
	ended := 0
	for id, st := range c.streams {
		if id > last {
			st.failLocked(&Error{Kind: Closed, IsUnprocessed: true, OfNewConn: id == 1 && code != wire.NoError,
				Err: c.goAway})
			st.closeLocked()
			ended++
		}
	}
	c.mu.Unlock()
	c.host.Closing()
	for range ended {
		c.host.StreamClosed()
	}
	return f
}
