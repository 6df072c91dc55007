package h2

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/wire/http1"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

// codec is the codec of one stream. The conn's output is complete frames, except for a head that is
// being appended, and for the DATA frame that the output may end in. CompleteOut completes that
// one, when it is known how much of it the windows allow.
type codec struct {
	stream   *Stream
	head     int  // offset of the HEADERS frame that is being appended, plus one
	lastHead int  // offset of a complete HEADERS frame that the output ends in, plus one
	data     int  // offset of the DATA frame that the output ends in, plus one
	hasEnded bool // the body's end was appended
}

// Reset, Trim, ParseHead and the other methods for heads have nothing to do: sessions parse heads.

func (h *codec) Reset() { h.head, h.lastHead, h.data, h.hasEnded = 0, 0, 0, false }

func (h *codec) Trim()                                           {}
func (h *codec) HasBegun() bool                                  { return false }
func (h *codec) Suspend()                                        {}
func (h *codec) NextRequest()                                    {}
func (h *codec) ParseHead(*exchange.Conn) (complete, ok bool)    { return false, false }
func (h *codec) BeginExchange(*exchange.Conn) *exchange.Exchange { return nil }
func (h *codec) Refuse(*exchange.Conn, int, string)              {}

func (h *codec) ReadBody(b *exchange.Body, p []byte) (int, error) { return h.stream.readBody(b, p) }

func (h *codec) HasArrived(_ *exchange.Body, whole bool) bool {
	if whole {
		return h.stream.HasArrived()
	}
	return h.stream.hasInput()
}

func (h *codec) startHead(c *exchange.Conn) {
	h.head = len(c.Out) + 1
	c.Out = wire.AppendHeaders(c.Out, h.stream.id)
}

func (h *codec) Continue() []byte {
	out := wire.AppendHeaders(nil, h.stream.id)
	return wire.EndBlock(wire.AppendStatus(out, http.StatusContinue), 0, wire.MinMaxFrameSize)
}

func (h *codec) StartHead(w *exchange.Response, code int) {
	h.startHead(w.Conn)
	w.Conn.Out = wire.AppendStatus(w.Conn.Out, code)
}

// AppendField appends a field, unless it concerns the connection (RFC 9113, 8.2.2). It removes
// space around the value. As in net/http, an invalid value is omitted.
func (h *codec) AppendField(out []byte, name, value string) []byte {
	switch len(name) {
	case len("Upgrade"), len("Keep-Alive"), len("Proxy-Connection"), len("Transfer-Encoding"):
		if isConnectionField(name) {
			return out
		}
	}
	if !http1.ValidValue(value) {
		return out
	}
	return wire.AppendField(out, name, strings.Trim(value, " \t"))
}

// AppendRawField appends a field, unless it concerns the connection.
func (h *codec) AppendRawField(out, name, value []byte) []byte {
	if isConnectionField(string(name)) {
		return out
	}
	return wire.AppendField(out, name, value)
}

// isConnectionField reports whether HTTP/2 forbids a field.
func isConnectionField(name string) bool {
	names := [...]string{"connection", "upgrade", "keep-alive", "proxy-connection", "transfer-encoding"}
	for _, forbidden := range names {
		if strings.EqualFold(name, forbidden) {
			return true
		}
	}
	return false
}

func (h *codec) AppendLength(out []byte, n int64) []byte {
	return wire.AppendLength(out, n)
}

func (h *codec) AppendDate(out []byte, date string) []byte {
	return wire.AppendField(out, "date", date)
}

func (h *codec) AppendFraming(out []byte, _ *exchange.Response) []byte { return out }

// AppendConnection announces the end of the connection, if the handler has set Connection:
// close or the server is about to stop.
func (h *codec) AppendConnection(out []byte, w *exchange.Response) []byte {
	if http1.HasToken(w.Conn.Summary.Connection, "close") || w.Conn.Config.Server.Retired.Load() {
		s := h.stream.session
		s.mu.Lock()
		s.announceLocked()
		s.mu.Unlock()
	}
	return out
}

func (h *codec) EndHead(c *exchange.Conn) {
	at := h.head - 1
	c.Out = wire.EndBlock(c.Out, at, wire.MinMaxFrameSize)
	h.head, h.lastHead = 0, at+1
}

func (h *codec) Delimit(*exchange.Response) {}
func (h *codec) DiscardOut()                { h.Reset() }

func (h *codec) EmitBody(w *exchange.Response, p []byte) error {
	c := w.Conn
	if len(p) >= exchange.OutSize {
		if err := c.Flush(); err != nil {
			return err
		}
		err := h.sendData(c, p, false)
		c.FailWrite(err)
		return err
	}
	h.openData(c)
	c.Out = append(c.Out, p...)
	if len(c.Out) >= exchange.OutSize {
		return c.Flush()
	}
	return c.WriteErr
}

func (h *codec) openData(c *exchange.Conn) {
	if h.data == 0 {
		h.data, h.lastHead = len(c.Out)+1, 0
		c.Out = wire.AppendFrameHeader(c.Out, wire.FrameHeader{Type: wire.Data, StreamID: h.stream.id})
	}
}

func (h *codec) EndBody(w *exchange.Response) {
	c := w.Conn
	if c.WriteErr != nil {
		return
	}
	hasTrailers := !w.IsHEAD && w.HasTrailers() // as in net/http
	if hasTrailers && h.data > 0 && c.Flush() != nil {
		return
	}
	h.hasEnded = true
	switch {
	case hasTrailers:
		at := len(c.Out)
		h.startHead(c)
		empty := len(c.Out)
		c.Out = w.AppendTrailers(c.Out)
		h.head, h.lastHead = 0, 0
		if len(c.Out) > empty {
			wire.AddFrameFlags(c.Out[at:], wire.EndStream)
			c.Out = wire.EndBlock(c.Out, at, wire.MinMaxFrameSize)
			return
		}
		c.Out = c.Out[:at]
		h.openData(c)
	case h.lastHead > 0:
		wire.AddFrameFlags(c.Out[h.lastHead-1:], wire.EndStream)
	default:
		h.openData(c) // CompleteOut sets the flag
	}
}

// CompleteOut completes the DATA frame that the output ends in. If the windows do not allow all of
// it, it sends the output in parts.
func (h *codec) CompleteOut(c *exchange.Conn) {
	h.lastHead = 0
	if h.data == 0 {
		return
	}
	at := h.data - 1
	h.data = 0
	want := len(c.Out) - at - wire.FrameHeaderSize
	if want == 0 && !h.hasEnded {
		c.Out = c.Out[:at]
		return
	}
	n, err := 0, error(nil)
	timeout := c.CurrentSendTimeout()
	if n = h.stream.tryReserve(want); n == 0 && want > 0 {
		if at > 0 { // the client may need the head to decide about its window
			err = h.stream.Send(c.Out[:at], timeout)
			c.Out, at = append(c.Out[:0], c.Out[at:]...), 0
		}
		if err == nil {
			n, err = h.stream.reserve(want, timeout)
		}
	}
	if err == nil {
		wire.SetFrameLength(c.Out[at:], n)
		if n == want {
			if h.hasEnded {
				wire.AddFrameFlags(c.Out[at:], wire.EndStream)
			}
			return
		}
		rest := bytes.Clone(c.Out[at+wire.FrameHeaderSize+n:])
		if err = h.stream.Send(c.Out[:at+wire.FrameHeaderSize+n], timeout); err == nil {
			err = h.sendData(c, rest, h.hasEnded)
		}
	}
	c.Out = c.Out[:0]
	c.FailWrite(err)
}

// sendData sends p as DATA frames, directly from p. Each call of the transport sends as many as the
// windows allow.
func (h *codec) sendData(c *exchange.Conn, p []byte, isLast bool) error {
	const frames = mostReserved / wire.MinMaxFrameSize
	var headers [frames * wire.FrameHeaderSize]byte
	var pieces [2 * frames][]byte
	for len(p) > 0 {
		n, err := h.stream.reserve(len(p), c.CurrentSendTimeout())
		if err != nil {
			return err
		}
		next, all := headers[:0], pieces[:0]
		for n > 0 {
			frame := wire.FrameHeader{Length: uint32(min(n, wire.MinMaxFrameSize)), StreamID: h.stream.id}
			if isLast && int(frame.Length) == len(p) {
				frame.Flags = wire.EndStream
			}
			at := len(next)
			next = wire.AppendFrameHeader(next, frame)
			all = append(all, next[at:], p[:frame.Length])
			p, n = p[frame.Length:], n-int(frame.Length)
		}
		if err := h.stream.SendPieces(all, c.CurrentSendTimeout()); err != nil {
			return err
		}
	}
	return nil
}
