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
	inputSize = 16 << 10
	// maxFields bounds the fields of a response's head.
	maxFields = 1000
	// maxUnwanted is how much is read beyond the end of a body.
	maxUnwanted = 256 << 10
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
var errEnd = errors.New("fcgi: the request has ended")

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
type input struct {
	b    [inputSize]byte
	head []byte // of a response, if it comes in pieces
	cgi  http1.CGI
}

// answer receives the response of a call. It is the response's body.
type answer struct {
	c *call

	reading sync.Mutex // guards the rest
	in      *input     // nil once it is not needed
	from    int        // what was not looked at lies in in.b[from:to]
	to      int
	records wire.Reader
	current wire.Type // of the record that is being read
	began   bool      // something has come
	closed  bool      // STDOUT
	clean   bool      // nothing has come behind the request's end
	err     error     // what Read returns; io.EOF after the request's end

	content []byte // of STDOUT, not read yet; in in.b
	headed  bool   // what comes is the body
	none    bool   // there must not be any
	left    int64  // of the body; -1 if it is not known
	excess  int    // how much more has come
}

func newAnswer(c *call) *answer {
	a := &answer{c: c, left: -1}
	if a.in, _ = c.client.inputs.Get().(*input); a.in == nil {
		a.in = new(input)
	}
	a.in.head = a.in.head[:0]
	a.in.cgi.Reset()
	return a
}

// response waits for the head.
func (a *answer) response() (*http.Response, error) {
	a.reading.Lock()
	defer a.reading.Unlock()
	head, err := a.head()
	if err != nil {
		return nil, a.stop(err)
	}
	resp, err := a.translate(head)
	if err != nil {
		return nil, a.stop(err)
	}
	if err := a.c.gotHead(); err != nil {
		return nil, a.stop(err)
	}
	if a.count(); a.none {
		a.settle()
	}
	switch resp.Body = a; {
	case errors.Is(a.err, io.EOF):
		resp.Body = http.NoBody
	case a.left <= 0 && a.endsHere():
		resp.Body = &roundtrip.WholeBody{Text: string(a.content)}
		a.settle()
	}
	return resp, nil
}

// head waits for the whole head and returns it.
func (a *answer) head() ([]byte, error) {
	limit := min(cmp.Or(a.c.client.MaxResponseHeaderBytes, http.DefaultMaxHeaderBytes), math.MaxInt32)
	limits := http1.Limits{Bytes: int(limit), Fields: maxFields}
	for {
		if err := a.advance(true); err != nil {
			return nil, err
		}
		b := a.content
		if len(a.in.head) > 0 {
			a.in.head = append(a.in.head, b...)
			b = a.in.head
		}
		complete, err := a.in.cgi.Parse(b, limits)
		if err != nil {
			return nil, &MalformedError{fmt.Errorf("fcgi: the response's head: %w", err)}
		}
		if complete {
			size := a.in.cgi.Size
			a.content = a.content[len(a.content)-(len(b)-size):]
			a.headed = true
			return b[:size], nil
		}
		if len(a.in.head) == 0 {
			a.in.head = append(a.in.head, b...)
		}
		a.content = nil
	}
}

// translate makes a response of its head.
func (a *answer) translate(head []byte) (*http.Response, error) {
	cgi := &a.in.cgi
	if cgi.Status < 200 {
		return nil, &MalformedError{fmt.Errorf("fcgi: the application answered with the interim status %d", cgi.Status)}
	}
	text := http1.TextOf(head)
	reason := cmp.Or(text.Of(cgi.Reason), http.StatusText(cgi.Status))
	resp := &http.Response{
		Status: strings.TrimRight(strconv.Itoa(cgi.Status)+" "+reason, " "), StatusCode: cgi.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header(cgi.Fields, &text), ContentLength: -1, Request: a.c.Request,
	}
	length, known := cgi.Length()
	if known {
		resp.ContentLength = length
	}
	switch {
	case a.c.Method == http.MethodHead:
		a.none = true
	case !http1.BodyAllowed(cgi.Status):
		a.none, resp.ContentLength = true, 0
	case known:
		a.left, a.none = length, length == 0
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
func (a *answer) Read(p []byte) (n int, err error) {
	a.reading.Lock()
	defer a.reading.Unlock()
	for n == 0 && len(p) > 0 && a.err == nil {
		switch {
		case len(a.content) > 0:
			n = copy(p, a.content)
			a.content = a.content[n:]
		case a.isDirect(len(p)):
			n = a.receiveInto(p)
		default:
			a.step(true)
		}
	}
	if len(a.content) == 0 {
		a.step(false) // the end may be here
	}
	return n, a.err
}

// Close ends the response. Unless its end has been received that closes the connection.
func (a *answer) Close() error {
	if a.reading.TryLock() {
		if a.settle(); a.err == nil {
			_ = a.stop(errGivenUp)
		}
		a.reading.Unlock()
	}
	a.c.abandon(errGivenUp) // which ends a Read that waits
	return nil
}

// settle passes over what has arrived, in case the end is there.
func (a *answer) settle() {
	for more := true; more && a.err == nil; more = len(a.content) > 0 {
		a.content = nil
		a.step(false)
	}
}

func (a *answer) step(wait bool) {
	if a.err == nil {
		if err := a.advance(wait); err != nil {
			_ = a.stop(err)
		}
	}
}

// stop ends the answer, and the call with it. It returns err.
func (a *answer) stop(err error) error {
	if a.err = err; errors.Is(err, errEnd) {
		a.err = io.EOF
		a.c.finish(a.clean)
	} else {
		a.c.abandon(err)
	}
	if poison(a.in.b[:]); cap(a.in.head) > keptMessage {
		a.in.head = nil
	}
	poison(a.in.head[:cap(a.in.head)])
	a.c.client.inputs.Put(a.in)
	a.in, a.content = nil, nil
	return err
}
