package fastcgi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/wire/fcgi"
	"github.com/tarehq/tare/internal/wire/http1"
)

// codec is the codec of FastCGI for the responder role. A connection carries one request at a
// time, and GET_VALUES reports that. A request that begins before the last one has been received is
// refused. A request that arrives after it waits for the last response.
type codec struct {
	exchange.TextHead
	request fcgi.Request
	id      uint16        // of the request that is served
	fields  []http1.Field // of its head

	dropped int // bytes of records since its head that belong to no request

	inBody bool // the current record belongs to the request's body

	// recordStart is the offset in the output of the content of the record that the output ends
	// in; 0 if no record is open.
	recordStart int
}

// maxDropped limits records between requests: what exceeds CONTENT_LENGTH, GET_VALUES, and records
// of other requests.
const maxDropped = 1 << 20

// Protocol returns the protocol. Fields that describe the connection concern only the web server
// and its client (RFC 3875, 6.3.4).
func Protocol() exchange.Protocol {
	return exchange.Protocol{NewCodec: func() exchange.Codec { return new(codec) }}
}

// Reset keeps no more memory than a small request needs.
func (f *codec) Reset() {
	f.trim()
	f.request.Reset()
	f.dropped, f.inBody, f.recordStart = 0, false, 0
}

func (f *codec) trim() {
	if cap(f.fields) > exchange.KeptFields {
		f.fields = nil
	}
	if cap(f.request.Params) > exchange.KeptFields {
		f.request.Params = nil
	}
}

func (f *codec) Next(c *exchange.Conn) (x *exchange.Exchange, ok bool) {
	r := &f.request
	for {
		event, err := r.Next(c.Input(), c.Config.Limits.Bytes)
		if err != nil {
			f.refuseParams(c, err)
			return nil, false
		}
		if event == fcgi.Ready {
			return f.beginExchange(c)
		}
		n := r.Drop()
		c.Consume(n)
		if f.dropped += n; f.dropped > maxDropped {
			c.Config.Server.Logf("fcgi: connection from %s closed: %d bytes that belong to no request",
				c.Template.RemoteAddr, f.dropped)
			c.EndOutput()
			return nil, false
		}
		if event == fcgi.More {
			return nil, true
		}
		if timeout := c.Config.WriteTimeout; timeout > 0 && len(c.Out) == 0 { // else the output has a deadline
			c.SetWriteDeadline(time.Now().Add(timeout))
		}
		c.Out = appendReply(c.Out, event, r.Message)
		if (event == fcgi.Aborted || event == fcgi.Misplaced) && !r.Keep {
			c.EndOutput()
			return nil, false
		}
		if len(c.Out) >= exchange.OutSize && c.Flush() != nil {
			return nil, false
		}
	}
}

// appendReply appends the reply to an event that is not a request.
func appendReply(out []byte, event fcgi.Event, message fcgi.Piece) []byte {
	switch event {
	case fcgi.ValuesRequested:
		return fcgi.AppendValuesResult(out, message.Content)
	case fcgi.Unknown:
		return fcgi.AppendUnknownType(out, message.Type)
	case fcgi.Second:
		return fcgi.AppendEnd(out, message.ID, fcgi.End{Status: fcgi.CantMultiplex})
	case fcgi.Misplaced:
		return fcgi.AppendEnd(out, message.ID, fcgi.End{Status: fcgi.UnknownRole})
	}
	return fcgi.AppendEnd(out, message.ID, fcgi.End{}) // fcgi.Aborted
}

func (f *codec) beginExchange(c *exchange.Conn) (x *exchange.Exchange, ok bool) {
	in, r := c.Input(), &f.request
	var list []byte
	if len(r.Params) == 1 { // the usual case
		list = r.Params[0].In(in)
	} else {
		for _, piece := range r.Params {
			list = append(list, piece.In(in)...)
		}
	}
	x, err := f.newExchange(c, list)
	c.Consume(r.Size)
	if err != nil {
		c.Refuse(http.StatusBadRequest, err.Error())
		return nil, false
	}
	f.id, f.dropped, f.inBody = r.ID, 0, false
	r.Done()
	f.trim()
	return x, true
}

// HasBegun implements exchange.Parser. Of an incomplete record that belongs to no request, nothing
// stays in the input.
func (f *codec) HasBegun(in []byte) bool { return len(in) > 0 || f.request.Pending() }

// refuseParams responds to a malformed request, if a response is possible.
func (f *codec) refuseParams(c *exchange.Conn, err error) {
	e := err.(*fcgi.Error) //nolint:errorlint // Next returns no other
	if e.TooLarge {
		c.Refuse(http.StatusRequestHeaderFieldsTooLarge, e.What)
		return
	}
	// the request id is unknown
	c.Config.Server.Logf("fcgi: connection from %s closed: %s", c.Template.RemoteAddr, e.What)
	c.EndOutput() // with the responses to earlier requests
}

func (f *codec) Refuse(c *exchange.Conn, status int, fields exchange.ServerFields, text string) {
	if f.request.ID == 0 {
		return // no request has begun
	}
	f.id = f.request.ID
	f.openRecord(c)
	c.Out = appendStatus(c.Out, status)
	f.AppendServerFields(c, fields)
	c.Out = append(http1.AppendHeadEnd(c.Out), text...)
	f.endRequest(c)
}

func (f *codec) BeginHead(w *exchange.Response, code int) {
	f.openRecord(w.Conn)
	w.Conn.Out = appendStatus(w.Conn.Out, code)
}

// appendStatus appends the Status field, CGI's status line (RFC 3875, 6.3.3).
func appendStatus(out []byte, code int) []byte {
	if code == http.StatusOK {
		return append(out, "Status: 200 OK\r\n"...)
	}
	out = append(out, "Status: "...)
	out = strconv.AppendInt(out, int64(code), 10)
	out = append(out, ' ')
	out = append(out, exchange.StatusText(code)...)
	return append(out, "\r\n"...)
}

// Delimit keeps the connection unless the server is stopping. The end of the stream marks the end
// of the body, and FCGI_KEEP_CONN is the web server's choice.
func (f *codec) Delimit(w *exchange.Response, fields exchange.ServerFields) {
	c := w.Conn
	if !c.Config.Server.KeepsConnections() {
		w.ClosesConn = true
	}
	f.openRecord(c) // for the rest of the head; STDERR records may have come between
	f.AppendServerFields(c, fields)
}

func (f *codec) Data(w *exchange.Response, p []byte) {
	f.openRecord(w.Conn)
	w.Conn.Out = append(w.Conn.Out, p...)
}

func (f *codec) SendData(w *exchange.Response, p []byte) (err error) {
	for c := w.Conn; len(p) > 0 && err == nil; {
		n := min(len(p), fcgi.MaxContent)
		f.endRecord(c)
		c.Out = fcgi.AppendHeader(c.Out, f.stdoutHeader(n))
		err = c.Send(p[:n])
		p = p[n:]
	}
	return err
}

func (f *codec) End(w *exchange.Response) { f.endRequest(w.Conn) }

func (f *codec) Flush(c *exchange.Conn) error {
	f.endRecord(c)
	return c.Send()
}

// openRecord appends the header of a STDOUT record, unless the output ends in an open one.
func (f *codec) openRecord(c *exchange.Conn) {
	if f.recordStart == 0 {
		c.Out = fcgi.AppendHeader(c.Out, f.stdoutHeader(0)) // endRecord sets its length
		f.recordStart = len(c.Out)
	}
}

// endRecord completes the record that the output ends in, unless it was discarded. Only a
// response's head can be too large for one record; it is split.
func (f *codec) endRecord(c *exchange.Conn) {
	if f.recordStart == 0 || f.recordStart > len(c.Out) {
		f.recordStart = 0
		return
	}
	start, content := f.recordStart-fcgi.HeaderSize, c.Out[f.recordStart:]
	switch f.recordStart = 0; {
	case len(content) == 0:
		c.Out = c.Out[:start]
	case len(content) <= fcgi.MaxContent:
		fcgi.PutHeader(c.Out[start:], f.stdoutHeader(len(content)))
	default:
		c.Out = fcgi.AppendStream(c.Out[:start:start], fcgi.Stdout, f.id, content)
	}
}

func (f *codec) stdoutHeader(length int) fcgi.Header {
	return fcgi.Header{Type: fcgi.Stdout, ID: f.id, Length: uint16(length)}
}

func (f *codec) endRequest(c *exchange.Conn) {
	f.endRecord(c)
	c.Out = fcgi.AppendStreamEnd(c.Out, fcgi.Stdout, f.id)
	c.Out = fcgi.AppendEnd(c.Out, f.id, fcgi.End{})
}
