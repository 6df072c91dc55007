package engine

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/tarehq/tare/internal/wire/fcgi"
	"github.com/tarehq/tare/internal/wire/http1"
)

// fcgiCodec is the codec of FastCGI for the responder role. A connection carries one request at a
// time, and GET_VALUES reports that. A request that begins before the last one has been received is
// refused. A request that arrives after it waits for the last response.
type fcgiCodec struct{}

// fcgiConn is the FastCGI state of a connection.
type fcgiConn struct {
	fcgi.Request
	recordHeaders [recordsAtOnce * fcgi.HeaderSize]byte
	// header and content of large records while they are written
	recordPieces [2 * recordsAtOnce][]byte
}

func (fcgiCodec) parseHead(c *conn) (complete, ok bool) {
	r := &c.fcgi.Request
	for {
		event, err := r.Next(c.in[c.next:c.end], c.limits.Bytes)
		if err != nil {
			c.refuseParams(err)
			return false, false
		}
		if event == fcgi.Ready {
			return true, true
		}
		c.next += r.Drop()
		if event == fcgi.More {
			return false, true
		}
		if c.writeTimeout > 0 && len(c.out) == 0 { // otherwise the output already has a deadline
			c.setWriteDeadline(time.Now().Add(c.writeTimeout))
		}
		c.out = appendReply(c.out, event, r.Message)
		if event == fcgi.Aborted {
			r.ID = 0 // the request gets no further record
		}
		if endsConn(event, r) {
			c.sendAndLinger()
			return false, false
		}
		if len(c.out) >= outSize && c.flush() != nil {
			return false, false
		}
	}
}

// endsConn reports whether an event ended a request that did not set FCGI_KEEP_CONN.
func endsConn(event fcgi.Event, r *fcgi.Request) bool {
	switch event {
	case fcgi.Aborted:
		return !r.Keep
	case fcgi.Misplaced:
		begin, err := fcgi.ParseBegin(r.Message.Content)
		return err == nil && !begin.Keep
	}
	return false
}

// appendReply appends the reply to an event that is not a request.
func appendReply(out []byte, event fcgi.Event, message fcgi.Piece) []byte {
	switch event {
	case fcgi.ValuesRequested:
		most := maxConnections()
		return fcgi.AppendValuesResult(out, message.Content, fcgi.Values{Conns: most, Requests: most, Multiplex: "0"})
	case fcgi.Unknown:
		return fcgi.AppendUnknownType(out, message.Type)
	case fcgi.Second:
		return fcgi.AppendEnd(out, message.ID, fcgi.End{Status: fcgi.CantMultiplex})
	case fcgi.Misplaced:
		return fcgi.AppendEnd(out, message.ID, fcgi.End{Status: fcgi.UnknownRole})
	case fcgi.Aborted:
		return fcgi.AppendEnd(out, message.ID, fcgi.End{})
	}
	return out
}

func (fcgiCodec) beginExchange(c *conn) *exchange {
	in, p := c.in[c.next:c.end], &c.fcgi
	var list []byte
	if len(p.Params) == 1 { // the usual case
		list = p.Params[0].In(in)
	} else {
		for _, piece := range p.Params {
			list = append(list, piece.In(in)...)
		}
	}
	x, err := newFCGIExchange(c, list)
	c.next += p.Size
	if err != nil {
		c.refuse(http.StatusBadRequest, err.Error())
		return nil
	}
	return x
}

func (fcgiCodec) nextRequest(c *conn) {
	c.fcgi.Done()
	c.request.Reset()
}

// refuseParams responds to a malformed request, if a response is possible.
func (c *conn) refuseParams(err error) {
	e, ok := errors.AsType[*fcgi.Error](err)
	switch {
	case !ok:
		panic("engine: BUG: codec error of another type: " + err.Error())
	case e.TooLarge:
		c.refuse(http.StatusRequestHeaderFieldsTooLarge, e.What)
	default: // the request id is unknown
		c.logf("fcgi: connection from %s closed: %s", c.template.RemoteAddr, e.What)
		c.sendAndLinger() // with the responses to earlier requests
	}
}

func (fcgiCodec) refuse(c *conn, status int, why string) {
	id := c.fcgi.ID
	if id == 0 {
		return // no request has begun
	}
	text := refusal(status, why)
	c.openRecord()
	c.out = appendStatus(c.out, status)
	c.out = http1.AppendField(c.out, "Content-Type", "text/plain; charset=utf-8")
	c.out = http1.AppendField(c.out, "Content-Length", strconv.Itoa(len(text)))
	c.out = http1.AppendHeadEnd(c.out)
	c.out = append(c.out, text...)
	c.endRequest(id)
}

// appendInterim appends nothing: CGI has no interim responses.
func (fcgiCodec) appendInterim(*response, int) bool { return false }

func (fcgiCodec) startHead(w *response, code int) {
	w.conn.openRecord()
	w.conn.out = appendStatus(w.conn.out, code)
}

// appendStatus appends the Status field, CGI's status line (RFC 3875, 6.3.3).
func appendStatus(out []byte, code int) []byte {
	if code == http.StatusOK {
		return append(out, "Status: 200 OK\r\n"...)
	}
	out = append(out, "Status: "...)
	out = strconv.AppendInt(out, int64(code), 10)
	out = append(out, ' ')
	out = append(out, statusText(code)...)
	return append(out, "\r\n"...)
}

// sendsField returns false for fields that concern only the web server and its client (RFC 3875,
// 6.3.4), and for Status, which startHead writes.
func (fcgiCodec) sendsField(string) bool { return false }

// delimit keeps the connection unless the server is stopping. The end of the stream marks the end
// of the body, and FCGI_KEEP_CONN is the web server's choice.
func (fcgiCodec) delimit(w *response) {
	w.conn.openRecord() // for the rest of the head; STDERR records may have come between
	if !w.conn.keepsConnections() {
		w.closesConn = true
	}
}

func (fcgiCodec) appendConnection(out []byte, _ *response) []byte { return out }

func (fcgiCodec) emitBody(w *response, p []byte) error {
	c := w.conn
	if len(p) >= outSize {
		return c.writeRecords(p)
	}
	c.openRecord()
	c.out = append(c.out, p...)
	if len(c.out) >= outSize {
		return c.flush()
	}
	return c.writeErr
}

func (fcgiCodec) endBody(w *response) {
	c := w.conn
	c.endRequest(c.fcgi.ID)
	if r := w.x.fcgiBody().replies; r != nil {
		c.out = r.appendTo(c.out)
	}
}

// openRecord appends the header of a STDOUT record, unless out ends in an open one.
func (c *conn) openRecord() {
	if c.stdoutStart == 0 {
		c.out = fcgi.AppendStreamEnd(c.out, fcgi.Stdout, c.fcgi.ID) // closeRecord sets its length
		c.stdoutStart = len(c.out)
	}
}

// closeRecord completes the record that out ends in. Only a response's head can be too large for
// one record; it is split.
func (c *conn) closeRecord() {
	start := c.stdoutStart - fcgi.HeaderSize
	content := c.out[c.stdoutStart:]
	switch c.stdoutStart = 0; {
	case len(content) == 0:
		c.out = c.out[:start]
	case len(content) <= fcgi.MaxContent:
		fcgi.PutHeader(c.out[start:], fcgi.Header{Type: fcgi.Stdout, ID: c.fcgi.ID, Length: uint16(len(content))})
	default:
		c.out = fcgi.AppendStream(c.out[:start:start], fcgi.Stdout, c.fcgi.ID, content)
	}
}

// endRequest appends the end of STDOUT and END_REQUEST.
func (c *conn) endRequest(id uint16) {
	if c.stdoutStart > 0 {
		c.closeRecord()
	}
	c.out = fcgi.AppendStreamEnd(c.out, fcgi.Stdout, id)
	c.out = fcgi.AppendEnd(c.out, id, fcgi.End{})
}

// recordsAtOnce is how many records of a large body one write sends.
const recordsAtOnce = 16

// writeRecords writes out and then a large part of a body, directly from p.
func (c *conn) writeRecords(p []byte) error {
	headers, records := &c.fcgi.recordHeaders, &c.fcgi.recordPieces
	for len(p) > 0 {
		if c.stdoutStart > 0 {
			c.closeRecord()
		}
		tail, next := records[:0], headers[:0]
		for len(p) > 0 && len(next) < len(headers) {
			n := min(len(p), fcgi.MaxContent)
			at := len(next)
			next = fcgi.AppendHeader(next, fcgi.Header{Type: fcgi.Stdout, ID: c.fcgi.ID, Length: uint16(n)})
			tail = append(tail, next[at:], p[:n])
			p = p[n:]
		}
		err := c.flush(tail...)
		clear(tail)
		if err != nil {
			return err
		}
	}
	return nil
}
