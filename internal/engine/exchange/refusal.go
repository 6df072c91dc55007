package exchange

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/tarehq/tare/internal/wire/http1"
)

// ReportRefusal calls the server's hook with the request that c is reading.
func (c *Conn) ReportRefusal(status int, sent int64) {
	if c.Config.OnRefused == nil {
		return
	}
	c.transport.MayBlock() // the hook may block in spite of its doc, for example on a log's pipe
	r := &http.Request{RemoteAddr: c.Template.RemoteAddr, TLS: c.Template.TLS}
	c.Config.ReportRequest(r, c.transport.LocalAddr(), c.Input(), status, sent)
}

// Refuse responds to a request that no handler sees, and ends the connection. why never contains
// text that the client sent.
func (c *Conn) Refuse(status int, why string) {
	text := RefusalText(status, why)
	fields := ServerFields{Length: int64(len(text)), ContentType: "text/plain; charset=utf-8", SendsDate: true}
	if status == http.StatusNotImplemented { // whose head is net/http's
		fields.Length, fields.SendsDate = -1, false
	}
	c.Codec.Refuse(c, status, fields, text)
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
	case c.Config.DefaultSendTimeout == 0: // no limit would end a send to a client that reads nothing
		c.SetWriteDeadline(time.Now().Add(c.Config.HeadTimeout))
	}
	c.Lingers = c.halfClose()
}

// RefusalText returns the body of the response to a refused request.
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
