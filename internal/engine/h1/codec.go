package h1

import (
	"net/http"

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
		if whole, isPreface := beginsPreface(in); isPreface {
			h.request.Reset()
			if !whole {
				return nil, true
			}
			c.Consume(len(prefaceHead))
			return newPrefaceExchange(c), true
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

func (h *codec) Refuse(c *exchange.Conn, status int, text string) {
	out := http1.AppendStatusLine(c.Out, 1, status, http.StatusText(status))
	isPlain := status != http.StatusNotImplemented // whose head is net/http's
	if isPlain {
		out = http1.AppendDate(out, c.Config.Server.Date.Text())
	}
	out = http1.AppendField(out, "Content-Type", "text/plain; charset=utf-8")
	if isPlain {
		out = http1.AppendLength(out, int64(len(text)))
	}
	out = http1.AppendField(out, "Connection", "close")
	out = http1.AppendHeadEnd(out)
	c.Out = append(out, text...)
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
	out := w.Conn.Out
	switch {
	case f.Length >= 0:
		out = http1.AppendLength(out, f.Length)
	case w.Chunked:
		// a coding that the handler has applied to the body (RFC 9112, 6.1)
		if own := w.Conn.Summary.TransferEncoding; own != "" && own != "chunked" {
			out = http1.AppendField(out, "Transfer-Encoding", own)
		}
		out = http1.AppendField(out, "Transfer-Encoding", "chunked")
	}
	if f.ContentType != "" {
		out = http1.AppendField(out, "Content-Type", f.ContentType)
	}
	out = appendConnection(out, w)
	if f.SendsDate {
		out = http1.AppendDate(out, w.Conn.Config.Server.Date.Text())
	}
	w.Conn.Out = out
}

func (h *codec) Data(w *exchange.Response, p []byte) error {
	c := w.Conn
	if w.Chunked {
		c.Out = http1.AppendChunkSize(c.Out, len(p))
	}
	if len(p) >= exchange.OutSize {
		if w.Chunked {
			return c.Send(p, []byte("\r\n"))
		}
		return c.Send(p)
	}
	c.Out = append(c.Out, p...)
	if w.Chunked {
		c.Out = http1.AppendChunkEnd(c.Out)
	}
	if len(c.Out) >= exchange.OutSize {
		return c.Send()
	}
	return c.WriteErr
}

func (h *codec) End(w *exchange.Response) {
	if w.Chunked && !w.IsHEAD {
		out := http1.AppendLastChunk(w.Conn.Out)
		w.Conn.Out = http1.AppendHeadEnd(w.AppendTrailers(out))
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

// choosePersistence sets ClosesConn if the connection cannot be kept.
func choosePersistence(w *exchange.Response) {
	if w.Minor == 0 {
		switch known := w.IsHEAD || w.NoBody || w.Length >= 0; {
		case !w.KeepsHTTP10 || !known:
			w.ClosesConn = true
		case w.Conn.Summary.Connection == nil:
			w.Conn.Summary.Connection = keepAlive
		}
	}
	// What follows a CONNECT may be meant for a tunnel, also if there is none.
	if w.IsCONNECT || !w.Conn.Config.KeepsConnections() {
		w.ClosesConn = true
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
