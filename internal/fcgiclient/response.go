package fcgiclient

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/tarehq/tare/internal/roundtrip"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
	"github.com/tarehq/tare/internal/wire/http1"
)

const (
	// receiveBufferSize is the number of bytes to receive at a time, unless the reader's buffer is
	// larger.
	receiveBufferSize = 16 << 10
	// maxFields limits the fields of a response's head.
	maxFields = 1000
	// maxExcess limits the bytes that are read behind the end of a body.
	maxExcess = 256 << 10
)

// Errors of an application that rejects a request (FastCGI 1.0, section 5.5).
var (
	// ErrOverloaded is returned if the application is out of a resource.
	ErrOverloaded = errors.New("fcgi: the application is overloaded")
	// ErrCannotMultiplex is returned if the application rejects the request as a second one on its
	// connection. The Client never sends a second one, so this is a fault of the application.
	ErrCannotMultiplex = errors.New("fcgi: the application cannot multiplex requests on a connection")
	// ErrUnknownRole is returned if the application is not a Responder.
	ErrUnknownRole = errors.New("fcgi: the application does not support the Responder role")
)

// errRequestEnded reports the regular end of a request to the reader of its records.
var errRequestEnded = errors.New("fcgi: the request has ended")

// ExitError is returned if an application ends a request without a response. After a response, the
// application's status is ignored, because HTTP has no equivalent.
type ExitError struct{ Status uint32 }

func (e *ExitError) Error() string {
	return "fcgi: the application ended the request without a response, with status " +
		strconv.FormatUint(uint64(e.Status), 10)
}

// MalformedError is returned if the received bytes are not FastCGI, or the head is not a CGI head.
type MalformedError struct{ Err error }

func (e *MalformedError) Error() string { return e.Err.Error() }

func (e *MalformedError) Unwrap() error { return e.Err }

// receiveBuffer holds received bytes and the parsed head.
type receiveBuffer struct {
	b    [receiveBufferSize]byte
	head []byte // of a response, if it arrives in pieces
	cgi  http1.CGI
}

// response receives the response of an exchange. It is the response's body, too.
type response struct {
	exchange *exchange

	reading     sync.Mutex     // guards the fields below
	in          *receiveBuffer // nil once it is released
	parsed      int            // in.b[parsed:filled] is received and not parsed
	filled      int
	records     wire.Reader
	recordType  wire.Type // of the current record
	receivedAny bool      // a byte was received
	stdoutEnded bool      // STDOUT has ended
	isCleanEnd  bool      // no bytes follow the end of the request
	err         error     // result of Read; io.EOF after the end of the request

	content   []byte // of STDOUT, not read yet; part of in.b
	hasHead   bool   // the content that follows belongs to the body
	hasNoBody bool   // a body is not allowed
	remaining int64  // of the body; -1 if unknown
	excess    int    // bytes received behind the body's end
}

func newResponse(x *exchange) *response {
	r := &response{exchange: x, remaining: -1}
	if r.in, _ = x.client.receiveBuffers.Get().(*receiveBuffer); r.in == nil {
		r.in = new(receiveBuffer)
	}
	r.in.head = r.in.head[:0]
	r.in.cgi.Reset()
	return r
}

// httpResponse waits for the head and returns the response.
func (r *response) httpResponse() (*http.Response, error) {
	r.reading.Lock()
	defer r.reading.Unlock()
	head, err := r.receiveHead()
	if err != nil {
		return nil, r.end(err)
	}
	resp, err := r.makeResponse(head)
	if err != nil {
		return nil, r.end(err)
	}
	if err := r.exchange.headReceived(); err != nil {
		return nil, r.end(err)
	}
	if r.limitBody(); r.hasNoBody {
		r.consumeBuffered()
	}
	switch resp.Body = r; {
	case errors.Is(r.err, io.EOF):
		resp.Body = http.NoBody
	case r.remaining <= 0 && r.hasBufferedEnd():
		resp.Body = &roundtrip.WholeBody{Text: string(r.content)}
		r.consumeBuffered()
	}
	return resp, nil
}

// receiveHead waits for the whole head and returns it.
func (r *response) receiveHead() ([]byte, error) {
	limit := min(cmp.Or(r.exchange.client.MaxResponseHeaderBytes, http.DefaultMaxHeaderBytes), math.MaxInt32)
	limits := http1.Limits{Bytes: int(limit), Fields: maxFields}
	for {
		if err := r.advance(true); err != nil {
			return nil, err
		}
		b := r.content
		if len(r.in.head) > 0 {
			r.in.head = append(r.in.head, b...)
			b = r.in.head
		}
		complete, err := r.in.cgi.Parse(b, limits)
		if err != nil {
			return nil, &MalformedError{fmt.Errorf("fcgi: malformed response head: %w", err)}
		}
		if complete {
			size := r.in.cgi.Size
			r.content = r.content[len(r.content)-(len(b)-size):]
			r.hasHead = true
			return b[:size], nil
		}
		if len(r.in.head) == 0 {
			r.in.head = append(r.in.head, b...)
		}
		r.content = nil
	}
}

// makeResponse makes the response of its head.
func (r *response) makeResponse(head []byte) (*http.Response, error) {
	cgi := &r.in.cgi
	if cgi.Status < 200 {
		return nil, &MalformedError{fmt.Errorf("fcgi: unexpected interim response %d", cgi.Status)}
	}
	text := http1.TextOf(head)
	reason := cmp.Or(text.Of(cgi.Reason), http.StatusText(cgi.Status))
	resp := &http.Response{
		Status: strings.TrimRight(strconv.Itoa(cgi.Status)+" "+reason, " "), StatusCode: cgi.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header(cgi.Fields, &text), ContentLength: -1, Request: r.exchange.Request,
	}
	length, known := cgi.Length()
	if known {
		resp.ContentLength = length
	}
	switch {
	case r.exchange.Method == http.MethodHead:
		r.hasNoBody = true
	case !http1.BodyAllowed(cgi.Status):
		r.hasNoBody, resp.ContentLength = true, 0
	case known:
		r.remaining, r.hasNoBody = length, length == 0
	}
	return resp, nil
}

// header makes a response's header. It drops fields that concern the connection to the application
// (RFC 3875, 6.3.4).
func header(lines []http1.Field, text *http1.Text) http.Header {
	h := roundtrip.Header(nil, lines, text, nil)
	for name := range h {
		if name == "Status" || roundtrip.ConcernsConnection(name) {
			delete(h, name)
		}
	}
	return h
}

// Read reads the body.
func (r *response) Read(p []byte) (n int, err error) {
	r.reading.Lock()
	defer r.reading.Unlock()
	for n == 0 && len(p) > 0 && r.err == nil {
		switch {
		case len(r.content) > 0:
			n = copy(p, r.content)
			r.content = r.content[n:]
		case r.isDirect(len(p)):
			n = r.readDirect(p)
		default:
			r.step(true)
		}
	}
	if len(r.content) == 0 {
		r.step(false) // the end of the request may have arrived
	}
	return n, r.err
}

// Close ends the response. It closes the connection unless the end of the request has arrived.
func (r *response) Close() error {
	if r.reading.TryLock() {
		if r.consumeBuffered(); r.err == nil {
			_ = r.end(errBodyClosed)
		}
		r.reading.Unlock()
	}
	r.exchange.abandon(errBodyClosed) // ends a Read that waits
	return nil
}

// consumeBuffered skips received content. The end of the request may be behind it.
func (r *response) consumeBuffered() {
	for more := true; more && r.err == nil; more = len(r.content) > 0 {
		r.content = nil
		r.step(false)
	}
}

func (r *response) step(wait bool) {
	if r.err == nil {
		if err := r.advance(wait); err != nil {
			_ = r.end(err)
		}
	}
}

// end ends the response and the exchange, and returns err.
func (r *response) end(err error) error {
	if r.err = err; errors.Is(err, errRequestEnded) {
		r.err = io.EOF
		r.exchange.finish(r.isCleanEnd)
	} else {
		r.exchange.abandon(err)
	}
	if poison(r.in.b[:]); cap(r.in.head) > maxKeptMessage {
		r.in.head = nil
	}
	poison(r.in.head[:cap(r.in.head)])
	r.exchange.client.receiveBuffers.Put(r.in)
	r.in, r.content = nil, nil
	return err
}
