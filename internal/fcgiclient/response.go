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
	// inputSize is how much is received at a time, unless the reader has more room.
	receiveBufferSize = 16 << 10
	// maxFields bounds the fields of a response's head.
	maxFields = 1000
	// maxUnwanted is how much is read beyond the end of a body.
	maxExcess = 256 << 10
)

// Errors of an application that refuses a request (FastCGI 1.0, section 5.5).
var (
	// ErrOverloaded is returned when the application is out of some resource.
	ErrOverloaded = errors.New("fcgi: the application is overloaded")
	// ErrCannotMultiplex is returned when the application takes the request for a second one
	// on its connection, which it is not.
	ErrCannotMultiplex = errors.New("fcgi: the application says that it cannot multiplex")
	// ErrUnknownRole is returned when the application is not a Responder.
	ErrUnknownRole = errors.New("fcgi: the application does not have the role of a Responder")
)

// errEnd is how the end of a request gets to who waits for its records.
var errRequestEnded = errors.New("fcgi: the request has ended")

// ExitError is returned when an application ends a request without a response. After a response
// its status means nothing that HTTP could tell.
type ExitError struct{ Status uint32 }

func (e *ExitError) Error() string {
	return "fcgi: the application ended the request without a response, with status " + strconv.FormatUint(uint64(e.Status), 10)
}

// MalformedError is returned when what comes is not FastCGI, or its head not one of CGI.
type MalformedError struct{ Err error }

func (e *MalformedError) Error() string { return e.Err.Error() }

func (e *MalformedError) Unwrap() error { return e.Err }

// input is memory for what is received.
type receiveBuffer struct {
	b    [receiveBufferSize]byte
	head []byte // of a response, if it comes in pieces
	cgi  http1.CGI
}

// answer receives the response of a call. It is the response's body.
type response struct {
	exchange *exchange

	reading     sync.Mutex     // guards the rest
	in          *receiveBuffer // nil once it is not needed
	parsed      int            // what was not looked at lies in in.b[from:to]
	filled      int
	records     wire.Reader
	recordType  wire.Type // of the record that is being read
	receivedAny bool      // something has come
	stdoutEnded bool      // STDOUT
	isCleanEnd  bool      // nothing has come behind the request's end
	err         error     // what Read returns; io.EOF after the request's end

	content   []byte // of STDOUT, not read yet; in in.b
	hasHead   bool   // what comes is the body
	hasNoBody bool   // there must not be any
	remaining int64  // of the body; -1 if it is not known
	excess    int    // how much more has come
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

// response waits for the head.
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

// head waits for the whole head and returns it.
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
			return nil, &MalformedError{fmt.Errorf("fcgi: the response's head: %w", err)}
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

// translate makes a response of its head.
func (r *response) makeResponse(head []byte) (*http.Response, error) {
	cgi := &r.in.cgi
	if cgi.Status < 200 {
		return nil, &MalformedError{fmt.Errorf("fcgi: the application answered with the interim status %d", cgi.Status)}
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

// header makes a response's header. Fields that concern the connection to the application are
// dropped (RFC 3875, 6.3.4).
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
		r.step(false) // the end may be here
	}
	return n, r.err
}

// Close ends the response. Unless its end has been received that closes the connection.
func (r *response) Close() error {
	if r.reading.TryLock() {
		if r.consumeBuffered(); r.err == nil {
			_ = r.end(errBodyClosed)
		}
		r.reading.Unlock()
	}
	r.exchange.abandon(errBodyClosed) // which ends a Read that waits
	return nil
}

// settle passes over what has arrived, in case the end is there.
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

// stop ends the answer, and the call with it. It returns err.
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
