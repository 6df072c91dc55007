package engine

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/tarehq/tare/internal/wire/fcgi"
	"github.com/tarehq/tare/internal/wire/http1"
)

// overFastCGI is FastCGI in the role of a responder. A connection carries one request at a
// time, and says so to whoever asks; one that begins before the last has been received is
// refused, one that has arrived after it waits for its answer.
type overFastCGI struct{}

// params is what of a connection belongs to FastCGI.
type params struct {
	fcgi.Request
	headers [recordsAtOnce * fcgi.HeaderSize]byte
	records [2 * recordsAtOnce][]byte // large ones while they are written: header, content
}

func (overFastCGI) head(c *conn) (complete, ok bool) {
	r := &c.params.Request
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
		if c.write > 0 && len(c.out) == 0 { // else what is there has its deadline
			c.setWriteDeadline(time.Now().Add(c.write))
		}
		c.out = appendReply(c.out, event, r.Message)
		if event == fcgi.Aborted {
			r.ID = 0 // nothing else is to be said to it
		}
		if endsConn(event, r) {
			c.part()
			return false, false
		}
		if len(c.out) >= outSize && c.flush() != nil {
			return false, false
		}
	}
}

// endsConn reports whether an event ended a request that did not ask to keep the connection.
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

// appendReply appends the answer to what is not a request.
func appendReply(out []byte, event fcgi.Event, message fcgi.Piece) []byte {
	switch event {
	case fcgi.Asked:
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

func (overFastCGI) begin(c *conn) *exchange {
	in, p := c.in[c.next:c.end], &c.params
	var list []byte
	if len(p.Params) == 1 { // as nearly always
		list = p.Params[0].In(in)
	} else {
		for _, piece := range p.Params {
			list = append(list, piece.In(in)...)
		}
	}
	x, err := newFastCGIExchange(c, list)
	c.next += p.Size
	if err != nil {
		c.refuse(http.StatusBadRequest, err.Error())
		return nil
	}
	return x
}

func (overFastCGI) next(c *conn) {
	c.params.Done()
	c.request.Reset()
}

// refuseParams answers a request that is malformed, as far as it can be answered.
func (c *conn) refuseParams(err error) {
	e, ok := errors.AsType[*fcgi.Error](err)
	switch {
	case !ok:
		panic("engine: BUG: codec error of another type: " + err.Error())
	case e.TooLarge:
		c.refuse(http.StatusRequestHeaderFieldsTooLarge, e.What)
	default: // whose records these are is not known
		c.logf("fcgi: connection from %s closed: %s", c.template.RemoteAddr, e.What)
		c.part() // with the answers to what came before
	}
}

func (overFastCGI) refuse(c *conn, status int, why string) {
	id := c.params.ID
	if id == 0 {
		return // there was no request
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

// inform appends nothing: CGI has no interim responses.
func (overFastCGI) inform(*response, int) bool { return false }

func (overFastCGI) start(w *response, code int) {
	w.conn.openRecord()
	w.conn.out = appendStatus(w.conn.out, code)
}

// appendStatus appends the line that stands for the status line (RFC 3875, 6.3.3).
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

// carries is false for fields that mean something between the web server and its client only
// (RFC 3875, 6.3.4), and for the one that is written as the status.
func (overFastCGI) carries(string) bool { return false }

// delimit has nothing to decide: the stream's end is the body's. Whether the connection is
// kept is the peer's choice, unless the server is stopping.
func (overFastCGI) delimit(w *response) {
	w.conn.openRecord() // for the rest of the head: the error stream may have come between
	if !w.conn.reuses() {
		w.close = true
	}
}

func (overFastCGI) appendConnection(out []byte, _ *response) []byte { return out }

func (overFastCGI) emit(w *response, p []byte) error {
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

func (overFastCGI) end(w *response) {
	c := w.conn
	c.endRequest(c.params.ID)
	if r := w.x.fastCGI().replies; r != nil {
		c.out = r.take(c.out)
	}
}

// openRecord begins a record of STDOUT at the end of out, unless out ends in one.
func (c *conn) openRecord() {
	if c.stdout == 0 {
		c.out = fcgi.AppendStreamEnd(c.out, fcgi.Stdout, c.params.ID) // its length follows
		c.stdout = len(c.out)
	}
}

// closeRecord completes the record that out ends in. Only a response's head can make it too
// large for one.
func (c *conn) closeRecord() {
	start := c.stdout - fcgi.HeaderSize
	content := c.out[c.stdout:]
	switch c.stdout = 0; {
	case len(content) == 0:
		c.out = c.out[:start]
	case len(content) <= fcgi.MaxContent:
		fcgi.PutHeader(c.out[start:], fcgi.Header{Type: fcgi.Stdout, ID: c.params.ID, Length: uint16(len(content))})
	default:
		c.out = fcgi.AppendStream(c.out[:start:start], fcgi.Stdout, c.params.ID, content)
	}
}

// endRequest appends the end of STDOUT and of the request.
func (c *conn) endRequest(id uint16) {
	if c.stdout > 0 {
		c.closeRecord()
	}
	c.out = fcgi.AppendStreamEnd(c.out, fcgi.Stdout, id)
	c.out = fcgi.AppendEnd(c.out, id, fcgi.End{})
}

// recordsAtOnce is how many records of a large body one write takes.
const recordsAtOnce = 16

// writeRecords writes a large part of a body from where it is, with what is in out.
func (c *conn) writeRecords(p []byte) error {
	headers, records := &c.params.headers, &c.params.records
	for len(p) > 0 {
		if c.stdout > 0 {
			c.closeRecord()
		}
		tail, next := records[:0], headers[:0]
		for len(p) > 0 && len(next) < len(headers) {
			n := min(len(p), fcgi.MaxContent)
			at := len(next)
			next = fcgi.AppendHeader(next, fcgi.Header{Type: fcgi.Stdout, ID: c.params.ID, Length: uint16(n)})
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
