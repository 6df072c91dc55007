package client

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	wire "github.com/tarehq/tare/internal/wire/fcgi"
	"github.com/tarehq/tare/internal/wire/http1"
)

// maxExcess limits how much is read and discarded after the end of a body.
const maxExcess = 256 << 10

func (f *fastcgiCodec) receiveHead(x *exchange) error {
	limits := http1.Limits{Bytes: x.client.maxHeadBytes, Fields: maxFields}
	for {
		if err := f.advance(x, true); err != nil {
			return err
		}
		b := f.content
		if len(f.head) > 0 {
			f.head = append(f.head, b...)
			b = f.head
		}
		complete, err := f.cgi.Parse(b, limits)
		switch {
		case err != nil:
			return x.malformed(err)
		case complete && f.cgi.Status < 200:
			return x.malformed(fmt.Errorf("unexpected interim response %d", f.cgi.Status))
		case complete:
			size := f.cgi.Size
			f.wholeHead, f.hasHead = b[:size], true
			f.content = f.content[len(f.content)-(len(b)-size):]
			return nil
		case len(f.head) == 0:
			f.head = append(f.head, b...)
		}
		f.content = nil
	}
}

func (f *fastcgiCodec) makeResponse(x *slab) error {
	f.setFraming(x)
	mayHaveBody := f.remaining != 0
	f.limitBody()
	if n, ok := f.bufferedBody(x.scratch.received()); ok && mayHaveBody {
		f.setHeader(x, n)
		whole := f.takeBody(x, n)
		x.endWhole(whole, f.isClean(&x.exchange))
		return nil
	}
	f.setHeader(x, 0)
	body := &responseBody{x: x}
	x.response.Body = body
	if !mayHaveBody {
		if err := f.skipBuffered(x); err != nil {
			body.end(err)
		}
		if body.err == io.EOF { //nolint:errorlint // the end of the request, never wrapped
			x.response.Body = http.NoBody
		}
	}
	return nil
}

// bufferedBody returns the length of the body. ok reports whether the body and a regular end of the
// request have been received, and no records of other requests. in follows the current content.
func (f *fastcgiCodec) bufferedBody(in []byte) (length int, ok bool) {
	length = len(f.content)
	ahead, hasEnded := f.records, f.stdoutEnded // a copy
	for {
		p, n, err := ahead.Next(in)
		switch {
		case err != nil, p.ID != requestID:
			return 0, false
		case p.Type == wire.EndRequest:
			end, err := wire.ParseEnd(p.Content)
			isExact := f.remaining < 0 || int64(length-len(f.content)) == f.remaining
			return length, isExact && err == nil && end.Status == wire.Complete
		case p.Type == wire.Stdout && !hasEnded:
			hasEnded = p.Ends()
			length += len(p.Content)
		case !p.Ends():
			return 0, false
		case p.Type != wire.Stderr:
			hasEnded = true // advance fails here, so that no content may follow
		}
		in = in[n:]
	}
}

// takeBody returns the body that bufferedBody has found, and advances to the end of the request. If
// the exchange has a Memory, the body lies there.
func (f *fastcgiCodec) takeBody(x *slab, length int) (body string) {
	m := x.scratch.memory
	var b []byte
	if m != nil {
		b = m.text
	} else {
		b = make([]byte, 0, length)
	}
	// advance returns io.EOF at the end, or the error of a record that follows the content
	for err := error(nil); err == nil; err = f.advance(&x.exchange, false) {
		b = append(b, f.content...)
		f.content = nil
	}
	if m != nil {
		m.text = b
		return m.body()
	}
	return string(b)
}

// setHeader sets the Header and the Status of the response. If the exchange has a Memory, setHeader
// copies the head there instead, with room for a body. It drops fields that concern the connection
// to the application (RFC 3875, 6.3.4), and Status unless the Call has Hooks: a proxy may show it.
func (f *fastcgiCodec) setHeader(x *slab, room int) {
	isProxied := x.scratch.call.hooks() != nil
	f.cgi.Fields = slices.DeleteFunc(f.cgi.Fields, func(h http1.Field) bool {
		return h.ConcernsConnection(f.wholeHead) ||
			!isProxied && h.Known == http1.NameUnknown && bytes.EqualFold(h.Name.In(f.wholeHead), []byte("Status"))
	})
	if m := x.scratch.memory; m != nil {
		f.cgi.Fields = m.keep(f.wholeHead, f.cgi.Fields, room)
		return
	}
	text, r := http1.TextOf(f.wholeHead), &x.response
	status := f.cgi.Status
	reason := cmp.Or(text.Of(f.cgi.Reason), http.StatusText(status))
	r.Status = strings.TrimRight(strconv.Itoa(status)+" "+reason, " ")
	r.Header = makeHeader(nil, f.cgi.Fields, &text, x.headerValues())
}

// setFraming sets the status code, version and length of the response.
func (f *fastcgiCodec) setFraming(x *slab) {
	r, status := &x.response, f.cgi.Status
	x.setResponse()
	r.StatusCode = status
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	r.ContentLength = -1
	length, known := f.cgi.Length()
	if known {
		r.ContentLength = length
	}
	switch {
	case x.request.Method == http.MethodHead:
		f.remaining = 0
	case !http1.BodyAllowed(status):
		f.remaining, r.ContentLength = 0, 0
	case known:
		f.remaining = length
	}
}

// readBody implements codec. It joins the records that have been received.
func (f *fastcgiCodec) readBody(x *slab, p []byte) (n int, err error) {
	switch {
	case len(f.content) > 0:
	case f.isDirect(x.scratch, len(p)):
		n, err = f.readDirect(&x.exchange, p)
	default:
		err = f.advance(&x.exchange, true)
	}
	for err == nil {
		copied := copy(p[n:], f.content)
		n, f.content = n+copied, f.content[copied:]
		if len(f.content) > 0 {
			break // p is full
		}
		// the end of the request may have arrived, too
		if err = f.advance(&x.exchange, false); len(f.content) == 0 {
			break
		}
	}
	return n, err
}

// mayDrain implements codec. The client's abort is what ends a response early.
func (f *fastcgiCodec) mayDrain(*exchange) bool { return false }

// hasInput implements codec. readBody has advanced to the next content.
func (f *fastcgiCodec) hasInput(*scratch) bool { return len(f.content) > 0 }

func (f *fastcgiCodec) skipBuffered(x *slab) (err error) {
	for more := true; more && err == nil; more = len(f.content) > 0 {
		f.content = nil
		err = f.advance(&x.exchange, false)
	}
	return err
}

// advance handles records until there is content, or until all received bytes are handled. Then it
// waits for more if wait is set. It returns io.EOF at the end of the request.
func (f *fastcgiCodec) advance(x *exchange, wait bool) error {
	for {
		p, n, err := f.records.Next(x.scratch.received())
		x.scratch.parsed += n
		switch {
		case err != nil:
			return x.malformed(fmt.Errorf("%w (is it a FastCGI application?)", err))
		case p.Type == 0 && !wait:
			return nil
		case p.Type == 0:
			err = x.fill()
		default:
			err = f.handleRecord(x, p)
		}
		if err != nil || len(f.content) > 0 {
			return err
		}
	}
}

// handleRecord handles a record, or a piece of one.
func (f *fastcgiCodec) handleRecord(x *exchange, p wire.Piece) error {
	f.recordType = p.Type
	switch {
	case p.ID != requestID:
	case p.Type == wire.EndRequest:
		return f.handleEndRequest(x, p)
	case p.Type == wire.Stderr:
		if !p.Ends() {
			f.stderr(x, p.Content)
		}
		return nil
	case p.Type == wire.Stdout && !f.stdoutEnded:
		f.stdoutEnded = p.Ends()
		f.content = p.Content
		if f.hasHead {
			f.limitBody()
		}
		if f.excess > maxExcess {
			return io.EOF // the connection is not clean
		}
		return nil
	}
	return x.malformed(fmt.Errorf("unexpected record of type %d for request %d", p.Type, p.ID))
}

// limitBody counts content as a part of the body, and cuts off what exceeds Content-Length.
func (f *fastcgiCodec) limitBody() {
	most := int64(len(f.content))
	if f.remaining >= 0 {
		most = min(most, f.remaining)
		f.remaining -= most
	}
	f.excess += len(f.content) - int(most)
	f.content = f.content[:most]
}

// handleEndRequest returns io.EOF if the response is complete.
func (f *fastcgiCodec) handleEndRequest(x *exchange, p wire.Piece) error {
	end, err := wire.ParseEnd(p.Content)
	switch {
	case err != nil:
		return x.malformed(err)
	case end.Status != wire.Complete:
		return rejection(x, end.Status)
	case !f.hasHead && len(f.head) == 0 && end.App != 0:
		return x.newError(Server, Rejected, whileReadingHead, &ExitError{end.App})
	case !f.hasHead:
		return x.malformed(fmt.Errorf("the application ended the request without a complete response head: %w",
			io.ErrUnexpectedEOF))
	case f.remaining > 0:
		return x.malformed(io.ErrUnexpectedEOF)
	}
	s := x.scratch
	f.endIsLast = len(s.received()) == int(p.Padding)
	return io.EOF
}

// rejection returns the error for the status of a request that was not processed.
func rejection(x *exchange, s wire.Status) error {
	known := map[wire.Status]error{wire.Overloaded: ErrOverloaded, wire.CantMultiplex: ErrCannotMultiplex,
		wire.UnknownRole: ErrUnknownRole}
	if err := known[s]; err != nil {
		return x.newError(Server, Rejected, x.whileReading(), err)
	}
	return x.malformed(fmt.Errorf("the application ended the request with unknown protocol status %d", s))
}

// isDirect reports whether the next content can be received into the reader's buffer, which has
// room for n bytes.
func (f *fastcgiCodec) isDirect(s *scratch, n int) bool {
	return s.in != nil && n >= len(s.in) && len(s.received()) == 0 && f.records.Left() >= len(s.in) &&
		f.recordType == wire.Stdout && f.remaining != 0
}

// readDirect receives content into the reader's buffer.
func (f *fastcgiCodec) readDirect(x *exchange, p []byte) (int, error) {
	most := int64(min(len(p), f.records.Left()))
	if f.remaining >= 0 {
		most = min(most, f.remaining)
	}
	n, err := x.read(p[:most])
	f.records.Consumed(n)
	if f.remaining >= 0 {
		f.remaining -= int64(n)
	}
	return n, err
}
