package h1

import (
	"net/http"
	"strconv"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/wire/http1"
)

// codec is the codec of HTTP/1.
type codec struct {
	request http1.Request
	chunks  http1.Chunked // of the current request's body
}

// Protocol returns the protocol.
func Protocol() exchange.Protocol {
	return exchange.Protocol{
		Name: "HTTP/1", NewCodec: func() exchange.Codec { return new(codec) }, Describe: describe,
		Traits: exchange.Traits{HasInterim: true, HasConnFields: true, HasTransferCodings: true, CanHijack: true},
	}
}

func (h *codec) Reset() { h.request.Reset() }

func (h *codec) Trim() {
	if cap(h.request.Fields) > exchange.KeptFields {
		h.request.Fields = nil
	}
}

func (h *codec) HasBegun() bool { return false } // all of a head lies in the input
func (h *codec) Suspend()       {}
func (h *codec) NextRequest()   { h.request.Reset() }

func (h *codec) ParseHead(c *exchange.Conn) (complete, ok bool) {
	complete, err := h.request.Parse(c.In[c.Next:c.End], c.Config.Limits)
	if err == nil {
		return complete, true
	}
	if whole, ok := beginsPreface(c.In[c.Next:c.End]); ok && !c.Config.ServesH2C {
		h.request.Reset() // Size 0 marks the preface: every other complete head has a size
		return whole, true
	}
	status, why := exchange.RefusalOf(err)
	if status == http.StatusRequestHeaderFieldsTooLarge && !h.request.Begun() {
		status = http.StatusRequestURITooLong // 431 is only for fields
	}
	c.Refuse(status, why)
	return false, false
}

func (h *codec) BeginExchange(c *exchange.Conn) *exchange.Exchange {
	if h.request.Size == 0 {
		c.Next += len(prefaceHead)
		return newPrefaceExchange(c)
	}
	x, err := h.newExchange(c, c.In[c.Next:c.Next+h.request.Size])
	if err != nil {
		c.Refuse(exchange.RefusalOf(err))
		return nil
	}
	if _, unmet := h.request.ExpectsContinue(); unmet {
		c.Refuse(http.StatusExpectationFailed, "unknown expectation")
		return nil
	}
	c.Next += h.request.Size
	return x
}

func (h *codec) Refuse(c *exchange.Conn, status int, text string) {
	out := http1.AppendStatusLine(c.Out, 1, status, http.StatusText(status))
	isPlain := status != http.StatusNotImplemented // whose head is net/http's
	if isPlain {
		out = http1.AppendField(out, "Date", c.Config.Server.Date.Text())
	}
	out = http1.AppendField(out, "Content-Type", "text/plain; charset=utf-8")
	if isPlain {
		out = http1.AppendField(out, "Content-Length", strconv.Itoa(len(text)))
	}
	out = http1.AppendField(out, "Connection", "close")
	out = http1.AppendHeadEnd(out)
	c.Out = append(out, text...)
}

func (h *codec) Continue() []byte { return []byte("HTTP/1.1 100 Continue\r\n\r\n") }

func (h *codec) StartHead(w *exchange.Response, code int) {
	if code == http.StatusOK && w.Minor > 0 {
		w.Conn.Out = append(w.Conn.Out, "HTTP/1.1 200 OK\r\n"...)
		return
	}
	w.Conn.Out = http1.AppendStatusLine(w.Conn.Out, int(min(w.Minor, 1)), code, exchange.StatusText(code))
}

func (h *codec) AppendRawField(out, name, value []byte) []byte {
	return http1.AppendRawField(out, name, value)
}

func (h *codec) AppendField(out []byte, name, value string) []byte {
	return http1.AppendField(out, name, value)
}

func (h *codec) AppendLength(out []byte, n int64) []byte { return http1.AppendLength(out, n) }
func (h *codec) AppendDate(out []byte, date string) []byte {
	return http1.AppendDate(out, date)
}

func (h *codec) EndHead(c *exchange.Conn) { c.Out = http1.AppendHeadEnd(c.Out) }

func (h *codec) AppendFraming(out []byte, w *exchange.Response) []byte {
	// a coding that the handler has applied itself (RFC 9112, 6.1)
	if own := w.Conn.Summary.TransferEncoding; own != "" && own != "chunked" {
		out = http1.AppendField(out, "Transfer-Encoding", own)
	}
	return http1.AppendField(out, "Transfer-Encoding", "chunked")
}

func (h *codec) CompleteOut(*exchange.Conn) {} // nothing is ever incomplete
func (h *codec) DiscardOut()                {}

func (h *codec) Delimit(w *exchange.Response) {
	chooseCoding(w)
	choosePersistence(w)
}

func (h *codec) EmitBody(w *exchange.Response, p []byte) error {
	c := w.Conn
	if w.Chunked {
		c.Out = http1.AppendChunkSize(c.Out, len(p))
	}
	if len(p) >= exchange.OutSize {
		if w.Chunked {
			return c.Flush(p, []byte("\r\n"))
		}
		return c.Flush(p)
	}
	c.Out = append(c.Out, p...)
	if w.Chunked {
		c.Out = http1.AppendChunkEnd(c.Out)
	}
	if len(c.Out) >= exchange.OutSize {
		return c.Flush()
	}
	return c.WriteErr
}

func (h *codec) EndBody(w *exchange.Response) {
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
	if server := w.Conn.Config.Server; w.IsCONNECT || !server.KeepsConnections() || server.Retired.Load() {
		w.ClosesConn = true
	}
}

// keepAlive is only read.
var keepAlive = []string{"keep-alive"}

func (h *codec) AppendConnection(out []byte, w *exchange.Response) []byte {
	values := w.Conn.Summary.Connection
	if w.ClosesConn && w.Status != http.StatusSwitchingProtocols && !http1.HasToken(values, "close") {
		if w.Minor > 0 && !w.OpensTunnel() { // whose end is not that of the response
			out = http1.AppendField(out, "Connection", "close")
		}
		return out
	}
	if len(values) == 0 { // the usual case
		return out
	}
	for _, v := range values {
		out = http1.AppendField(out, "Connection", v)
	}
	return out
}
