package h2

import (
	"net/http"
	"strings"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/wire/http1"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

func (st *Stream) BeginHead(w *exchange.Response, code int) {
	c := w.Conn
	if code < 200 && code != http.StatusSwitchingProtocols {
		st.framing.interim = int32(len(c.Out)) + 1
	}
	c.Out = wire.AppendStatus(wire.AppendHeaders(c.Out, st.id), code)
}

// EndHead implements exchange.Sink. It sends an interim response at once, before the final head
// that may have begun.
func (st *Stream) EndHead(w *exchange.Response) {
	c := w.Conn
	at := max(0, int(st.framing.interim)-1)
	c.Out = wire.EndBlock(c.Out, at, wire.MinMaxFrameSize)
	if st.framing.interim > 0 {
		c.FailWrite(st.send(c, c.Out[at:], nil, false))
		st.session.Flush()
		c.Out, st.framing.interim = c.Out[:at], 0
	}
}

// AppendField appends a field, unless it concerns the connection (RFC 9113, 8.2.2). It removes
// space around the value. As in net/http, an invalid value is omitted.
func (st *Stream) AppendField(out []byte, name, value string) []byte {
	if wire.ConcernsConnection(name) || !http1.ValidValue(value) {
		return out
	}
	return wire.AppendField(out, name, strings.Trim(value, " \t"))
}

// AppendRawField appends a field, unless it concerns the connection.
func (st *Stream) AppendRawField(out, name, value []byte) []byte {
	if wire.ConcernsConnection(name) {
		return out
	}
	return wire.AppendField(out, name, value)
}

// Delimit implements exchange.Sink. It announces the end of the connection, if the handler has set
// Connection: close or the server is about to stop.
func (st *Stream) Delimit(w *exchange.Response, f exchange.ServerFields) {
	c := w.Conn
	if http1.HasToken(c.Summary.Connection, "close") || c.Config.Server.Retired.Load() {
		s := st.session
		s.mu.Lock()
		s.announceLocked()
		s.mu.Unlock()
	}
	if f.Length >= 0 {
		c.Out = wire.AppendLength(c.Out, f.Length)
	}
	if f.ContentType != "" {
		c.Out = wire.AppendField(c.Out, "content-type", f.ContentType)
	}
	if f.SendsDate {
		c.Out = wire.AppendField(c.Out, "date", c.Config.Server.Date.Text())
	}
}

func (st *Stream) Data(w *exchange.Response, p []byte) {
	st.beginData(w.Conn)
	w.Conn.Out = append(w.Conn.Out, p...)
}

func (st *Stream) SendData(w *exchange.Response, p []byte) error {
	err := st.sendOutput(w.Conn, p)
	if !st.isOnTurn() {
		st.session.Flush()
	}
	return err
}

func (st *Stream) beginData(c *exchange.Conn) {
	if st.framing.data == 0 {
		st.framing.data = int32(len(c.Out)) + 1
	}
}

func (st *Stream) End(w *exchange.Response) {
	c := w.Conn
	if c.WriteErr != nil {
		return
	}
	f := &st.framing
	hasTrailers := !w.IsHEAD && w.HasTrailers() // as in net/http
	if hasTrailers && f.data > 0 && c.Flush() != nil {
		return
	}
	f.hasEnded = true
	switch {
	case hasTrailers:
		at := len(c.Out)
		c.Out = wire.AppendHeaders(c.Out, st.id)
		empty := len(c.Out)
		if w.AppendTrailers(); len(c.Out) > empty {
			wire.AddFrameFlags(c.Out[at:], wire.EndStream)
			c.Out = wire.EndBlock(c.Out, at, wire.MinMaxFrameSize)
			return
		}
		c.Out = c.Out[:at]
		st.beginData(c)
	case f.data == 0 && len(c.Out) > 0:
		wire.AddFrameFlags(c.Out, wire.EndStream) // of the head
	default:
		st.beginData(c) // Flush sets the flag
	}
}

// Flush implements exchange.Sink.
func (st *Stream) Flush(c *exchange.Conn) error {
	err := st.sendOutput(c, nil)
	if !st.exchange.Response.HasReturned() {
		st.session.Flush() // the handler has called Flush
	}
	return err
}

// sendOutput appends the conn's output and then p to the session's. After an error it reserves
// nothing, because nothing would send it.
func (st *Stream) sendOutput(c *exchange.Conn, p []byte) error {
	frames, data, isLast := c.Out, []byte(nil), false
	if f := &st.framing; f.data > 0 {
		frames, data, isLast = c.Out[:f.data-1], c.Out[f.data-1:], f.hasEnded
		f.data = 0
	}
	err := c.WriteErr
	if err == nil && (len(c.Out) > 0 || isLast) {
		err = st.send(c, frames, data, isLast)
	}
	if err == nil && len(p) > 0 {
		err = st.send(c, nil, p, false)
	}
	return c.EndFlush(err)
}

// send appends complete frames to the session's output, and then data as DATA frames, with
// END_STREAM if isLast is set. It waits for windows and for room.
func (st *Stream) send(c *exchange.Conn, frames, data []byte, isLast bool) error {
	s, timeout := st.session, c.CurrentSendTimeout()
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := st.reserveLocked(0, timeout)
	if err == nil { // the client may need the head to decide about its window
		s.output.out = append(s.output.out, frames...)
	}
	for n := 0; err == nil && (len(data) > 0 || isLast); data = data[n:] {
		if n, err = st.reserveLocked(len(data), timeout); err != nil {
			break
		}
		isEnd := isLast && n == len(data)
		s.output.out = wire.AppendData(s.output.out, st.id, data[:n], isEnd)
		if isLast = isLast && !isEnd; n > 0 {
			s.ledger.CreditData(n, st.wants)
			st.endReservationLocked()
		}
	}
	return err
}

// TrySend sends p as one DATA frame, if windows and room allow all of it now and the connection has
// nothing else to send. See connection.TrySender.
func (st *Stream) TrySend(p []byte) connection.Delivery {
	s, n := st.session, int32(len(p))
	o := &s.output
	s.mu.Lock()
	if st.writeErrorLocked() != nil || s.waiter == nil || o.isSending || o.pendingLocked() > 0 ||
		len(p) > wire.MinMaxFrameSize || n > st.sendWindow || n > s.sendWindow {
		s.mu.Unlock()
		return connection.Refused
	}
	st.sendWindow -= n
	s.sendWindow -= n
	s.ledger.CreditData(len(p), len(p))
	o.out = wire.AppendData(o.out, st.id, p, false)
	o.isSending = true
	s.mu.Unlock()
	s.send(true)
	return connection.Delivered
}
