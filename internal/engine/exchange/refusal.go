package exchange

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tarehq/tare/internal/wire/http1"
)

// Refusal is a request that no handler sees: it is malformed, or its head was late or incomplete.
type Refusal struct {
	// Request is the part of the request that was read. RemoteAddr, TLS, URL, Header and
	// http.LocalAddrContextKey are always set. Method, RequestURI and Proto are set if the
	// request line is well-formed; Host and Header hold the fields that precede the fault.
	Request *http.Request
	// Line is the request line as received, well-formed or not, without its line end, or the
	// part of it that has arrived. It has at most 8 KB.
	Line string
	// Status is the status of the response. If the client is slow or has left, no response was
	// sent, and Status is 408 or 400.
	Status int
	// Sent is the length of the response's body, 0 if there is no response.
	Sent int64
}

// MaxRefusedLine limits Refusal.Line.
const MaxRefusedLine = 8 << 10

// ReportRefusal calls the server's hook with the request that c is reading.
func (c *Conn) ReportRefusal(status int, sent int64) {
	if c.Config.OnRefused == nil {
		return
	}
	c.transport.MayBlock() // the hook may block in spite of its doc, for example on a log's pipe
	r := &http.Request{RemoteAddr: c.Template.RemoteAddr, TLS: c.Template.TLS}
	c.Config.ReportRequest(r, c.transport.LocalAddr(), c.Input(), status, sent)
}

// Refuse responds to a request that no handler sees, and ends the connection. why is never text of
// the client's: nothing that it sent is echoed.
func (c *Conn) Refuse(status int, why string) {
	text := RefusalText(status, why)
	c.Codec.Refuse(c, status, text)
	c.ReportRefusal(status, int64(len(text)))
	c.EndOutput()
}

// RefusalOf returns the arguments of Refuse for an error in a request.
func RefusalOf(err error) (status int, why string) {
	if e, ok := errors.AsType[*http1.Error](err); ok {
		return e.Status(), e.What
	}
	return http.StatusBadRequest, err.Error()
}

// EndOutput flushes the output of a connection that is over, and allows the client time to read it.
func (c *Conn) EndOutput() {
	switch {
	case c.Config.WriteTimeout > 0:
		c.SetWriteDeadline(time.Now().Add(c.Config.WriteTimeout))
	case c.Config.DefaultSendTimeout == 0: // nothing limits how long the client may accept nothing
		c.SetWriteDeadline(time.Now().Add(c.Config.HeadTimeout))
	}
	c.Lingers = c.halfClose()
}

// RefusalText returns the body of such a response.
func RefusalText(status int, why string) string {
	if status == http.StatusNotImplemented {
		return "Unsupported transfer encoding" // tests of net/http expect this text
	}
	return strconv.Itoa(status) + " " + http.StatusText(status) + ": " + why
}

// HeadFailed is called if reading has failed before a head was complete. It responds to a client
// that has ended its output, and reports the refusal.
func (c *Conn) HeadFailed(err error) {
	switch {
	case !c.HasBegun():
	case errors.Is(err, io.EOF):
		c.Refuse(http.StatusBadRequest, "incomplete request head")
	case IsTimeout(err):
		c.ReportRefusal(http.StatusRequestTimeout, 0)
	default:
		c.ReportRefusal(http.StatusBadRequest, 0)
	}
}

// ReportRequest calls the hook with a request of which in was read. r has what is known of its
// connection.
func (p *Config) ReportRequest(r *http.Request, local net.Addr, in []byte, status int, sent int64) {
	if p.OnRefused == nil || p.Protocol.Describe == nil {
		return
	}
	r.Header, r.URL, r.Body = make(http.Header), new(url.URL), http.NoBody
	line := p.Protocol.Describe(r, in, p.Limits)
	ctx := context.WithValue(p.BaseContext, http.LocalAddrContextKey, local)
	text := string(line[:min(len(line), MaxRefusedLine)])
	p.CallRefused(Refusal{Request: r.WithContext(ctx), Line: text, Status: status, Sent: sent})
}

// CallRefused calls the hook, which is not nil. A panic is logged as a handler's is. It must not
// end the process, and other requests of the connection must receive their responses.
func (p *Config) CallRefused(r Refusal) {
	defer func() {
		if err := recover(); err != nil {
			p.Server.LogPanic("reporting a rejected request of", r.Request.RemoteAddr, err)
		}
	}()
	p.OnRefused(r)
}
