package h1

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/wire/http1"
)

type codec struct {
	exchange.TextHead
	request http1.Request
	chunks  http1.Chunked // of the current request's body
	framing int64         // bytes of that body's framing that have been read
}

// Protocol returns the protocol.
func Protocol() exchange.Protocol {
	return exchange.Protocol{
		NewCodec: func() exchange.Codec { return new(codec) }, Describe: describe,
		Traits: exchange.Traits{HasInterim: true, HasConnFields: true, HasTransferCodings: true, CanHijack: true},
	}
}

// Reset keeps no more memory than a small request needs.
func (h *codec) Reset() {
	if cap(h.request.Fields) > exchange.KeptFields {
		h.request.Fields = nil
	}
	h.request.Reset()
}

func (h *codec) Next(c *exchange.Conn) (x *exchange.Exchange, ok bool) {
	in := c.Input()
	complete, err := h.request.Parse(in, c.Config.Limits)
	if err == nil && !complete {
		return nil, true
	}
	if err != nil && !c.Config.ServesH2C && !c.Config.ExpectedTLS {
		switch {
		case bytes.HasPrefix(in, []byte(prefaceHead)):
			h.request.Reset()
			c.Consume(len(prefaceHead))
			return newPrefaceExchange(c), true
		case strings.HasPrefix(prefaceHead, string(in)):
			h.request.Reset()
			return nil, true
		}
	}
	if err == nil {
		x, err = h.newExchange(c, in[:h.request.Size])
	}
	if err != nil {
		status, why := exchange.RefusalOf(err)
		if status == http.StatusRequestHeaderFieldsTooLarge && !h.request.Begun() {
			status = http.StatusRequestURITooLong // 431 is only for fields
		}
		c.Refuse(status, why)
		return nil, false
	}
	if _, unmet := h.request.ExpectsContinue(); unmet {
		c.Refuse(http.StatusExpectationFailed, "unknown expectation")
		return nil, false
	}
	c.Consume(h.request.Size)
	h.Reset()
	return x, true
}

// HasBegun implements exchange.Parser. All of an incomplete head stays in the input.
func (h *codec) HasBegun(in []byte) bool { return len(in) > 0 }

func (h *codec) Refuse(c *exchange.Conn, status int, f exchange.ServerFields, text string) {
	c.Out = http1.AppendStatusLine(c.Out, 1, status, http.StatusText(status))
	h.AppendServerFields(c, f)
	c.Out = http1.AppendField(c.Out, "Connection", "close")
	c.Out = append(http1.AppendHeadEnd(c.Out), text...)
}

func (h *codec) BeginHead(w *exchange.Response, code int) {
	if code == http.StatusOK && w.Minor > 0 {
		w.Conn.Out = append(w.Conn.Out, "HTTP/1.1 200 OK\r\n"...)
		return
	}
	w.Conn.Out = http1.AppendStatusLine(w.Conn.Out, int(min(w.Minor, 1)), code, exchange.StatusText(code))
}

// Flush implements exchange.Sink. The output is always complete.
func (h *codec) Flush(c *exchange.Conn) error { return c.Send() }

func (h *codec) Delimit(w *exchange.Response, f exchange.ServerFields) {
	chooseCoding(w)
	choosePersistence(w)
	w.DrainRequestBody()
	c := w.Conn
	h.AppendServerFields(c, f)
	if w.Chunked {
		// a coding that the handler has applied to the body (RFC 9112, 6.1)
		if own := c.Summary.TransferEncoding; own != "" && own != "chunked" {
			c.Out = http1.AppendField(c.Out, "Transfer-Encoding", own)
		}
		c.Out = http1.AppendField(c.Out, "Transfer-Encoding", "chunked")
	}
	c.Out = appendConnection(c.Out, w)
}

func (h *codec) Data(w *exchange.Response, p []byte) {
	c := w.Conn
	if !w.Chunked {
		c.Out = append(c.Out, p...)
		return
	}
	c.Out = http1.AppendChunkSize(c.Out, len(p))
	c.Out = http1.AppendChunkEnd(append(c.Out, p...))
}

func (h *codec) SendData(w *exchange.Response, p []byte) error {
	c := w.Conn
	if !w.Chunked {
		return c.Send(p)
	}
	c.Out = http1.AppendChunkSize(c.Out, len(p))
	return c.Send(p, []byte("\r\n"))
}

func (h *codec) End(w *exchange.Response) {
	if c := w.Conn; w.Chunked && !w.IsHEAD {
		c.Out = http1.AppendLastChunk(c.Out)
		w.AppendTrailers()
		c.Out = http1.AppendHeadEnd(c.Out)
	}
}

// chooseCoding sets chunked, or ClosesConn if only the end of the connection can mark the end of
// the body.
func chooseCoding(w *exchange.Response) {
	switch {
	case w.IsHEAD || w.NoBody || w.Length >= 0 || w.OpensTunnel():
	case w.Minor == 0 || w.Conn.Summary.TransferEncoding == "identity":
		w.ClosesConn = true
	default:
		w.Chunked = true
	}
}

// choosePersistence sets ClosesConn if the connection cannot be kept. If one of HTTP/1.0 is kept,
// the response says so.
func choosePersistence(w *exchange.Response) {
	// What follows a CONNECT may be meant for a tunnel, also if there is none.
	if w.IsCONNECT || !w.Conn.Config.KeepsConnections() {
		w.ClosesConn = true
	}
	if f := &w.Conn.Summary; w.Minor == 0 && !w.ClosesConn && f.Connection == nil {
		f.Connection = keepAlive
	}
}

// keepAlive is only read.
var keepAlive = []string{"keep-alive"}

// appendConnection appends the Connection field, if the response needs one.
func appendConnection(out []byte, w *exchange.Response) []byte {
	values := w.Conn.Summary.Connection
	if w.ClosesConn && w.Status != http.StatusSwitchingProtocols && !http1.HasToken(values, "close") {
		if w.Minor > 0 && !w.OpensTunnel() { // else the connection does not end with the response
			out = http1.AppendField(out, "Connection", "close")
		}
		return out
	}
	for _, v := range values {
		out = http1.AppendField(out, "Connection", v)
	}
	return out
}
