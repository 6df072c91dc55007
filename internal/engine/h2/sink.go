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
	c, at := w.Conn, &st.framing.head
	if code < 200 && code != http.StatusSwitchingProtocols {
		at = &st.framing.interim
	}
	*at = int32(len(c.Out)) + 1
	c.Out = wire.AppendStatus(wire.AppendHeaders(c.Out, st.id), code)
}

// EndHead implements exchange.Sink. It sends an interim response at once, before the final head
// that may have begun.
func (st *Stream) EndHead(w *exchange.Response) {
	c, f := w.Conn, &st.framing
	if f.interim == 0 {
		c.Out = wire.EndBlock(c.Out, int(f.head)-1, wire.MinMaxFrameSize)
		f.head, f.last = 0, f.head
		return
	}
	at := int(f.interim) - 1
	f.interim = 0
	c.Out = wire.EndBlock(c.Out, at, wire.MinMaxFrameSize)
	c.FailWrite(st.send(c.Out[at:], nil, false, c.CurrentSendTimeout()))
	c.Out = c.Out[:at]
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

func (st *Stream) Data(w *exchange.Response, p []byte) error {
	c := w.Conn
	if len(p) >= exchange.OutSize {
		if err := c.Flush(); err != nil {
			return err
		}
		err := st.sendData(c, p, false)
		c.FailWrite(err)
		return err
	}
	st.beginData(c)
	c.Out = append(c.Out, p...)
	if len(c.Out) >= exchange.OutSize {
		return c.Flush()
	}
	return c.WriteErr
}

func (st *Stream) beginData(c *exchange.Conn) {
	if f := &st.framing; !f.isData {
		f.last, f.isData = int32(len(c.Out))+1, true
	}
}

func (st *Stream) End(w *exchange.Response) {
	c := w.Conn
	if c.WriteErr != nil {
		return
	}
	f := &st.framing
	hasTrailers := !w.IsHEAD && w.HasTrailers() // as in net/http
	if hasTrailers && f.isData && c.Flush() != nil {
		return
	}
	f.hasEnded = true
	switch {
	case hasTrailers:
		at := len(c.Out)
		c.Out = wire.AppendHeaders(c.Out, st.id)
		empty := len(c.Out)
		c.Out = w.AppendTrailers(c.Out)
		if len(c.Out) > empty {
			wire.AddFrameFlags(c.Out[at:], wire.EndStream)
			c.Out = wire.EndBlock(c.Out, at, wire.MinMaxFrameSize)
			return
		}
		c.Out = c.Out[:at]
		st.beginData(c)
	case f.last > 0 && !f.isData:
		wire.AddFrameFlags(c.Out[f.last-1:], wire.EndStream)
	default:
		st.beginData(c) // Flush sets the flag
	}
}

// Flush implements exchange.Sink. If the windows do not allow all body bytes, it sends the output
// in parts. After an error it reserves nothing, because nothing would send it.
func (st *Stream) Flush(c *exchange.Conn) error {
	f, frames, data := &st.framing, c.Out, []byte(nil)
	isLast := f.isData && f.hasEnded
	if f.isData {
		frames, data = c.Out[:f.last-1], c.Out[f.last-1:]
	}
	f.last, f.isData = 0, false
	err := c.WriteErr
	if err == nil && (len(c.Out) > 0 || isLast) {
		n := st.tryReserve(len(data))
		// if n is 0, the client may need the head to decide about its window
		err = st.send(frames, data[:n], isLast && n == len(data), c.CurrentSendTimeout())
		if err == nil {
			err = st.sendData(c, data[n:], isLast)
		}
	}
	return c.EndFlush(err)
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
	o.out = wire.AppendFrameHeader(o.out, wire.FrameHeader{Length: uint32(n), Type: wire.Data, StreamID: st.id})
	o.out = append(o.out, p...)
	o.isSending = true
	s.mu.Unlock()
	s.send(true)
	return connection.Delivered
}

// sendData sends p as DATA frames, directly from p.
func (st *Stream) sendData(c *exchange.Conn, p []byte, isLast bool) error {
	timeout := c.CurrentSendTimeout()
	for len(p) > 0 {
		n, err := st.reserve(len(p), timeout)
		if err == nil {
			err = st.append(nil, p[:n], isLast && n == len(p), timeout)
		}
		if err != nil {
			return err
		}
		if p = p[n:]; !st.isOnTurn() {
			st.session.Flush()
		}
	}
	return nil
}
