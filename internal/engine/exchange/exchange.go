package exchange

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/wire/http1"
)

// inlineValues is how many field values an exchange has room for. With three it just fits the size
// class of 704 bytes (TestExchangeFillsItsSizeClass). Most programs send no more fields besides
// Host. Browsers send many more, and room for those would cost memory for every request.
const inlineValues = 3

// Exchange is one request and its response: one allocation that holds everything of fixed size. It
// is made for the request and left to the garbage collector, because handlers may keep a Request, a
// header value or a context indefinitely. With an allocation for each part, a request took 3.46
// instead of 1.67 µs (BenchmarkServe of package engine).
type Exchange struct {
	Request  http.Request
	URL      url.URL
	values   [inlineValues]string // backs the Header's slices
	Body     Body
	ctx      requestContext
	Response Response
	Extras   Extras // nil for HTTP/1
}

// Body is a request's body. Different goroutines of a handler may read it, use the context, write
// the response and hijack the connection at the same time. Two mutexes separate them. The goroutine
// that reads the connection holds reading, perhaps for as long as the client sends nothing. No
// goroutine holds mu while it waits.
type Body struct {
	Exchange  *Exchange
	reading   sync.Mutex // guards the fields up to mu, and the connection's input
	Remaining int64      // bytes that have not been read; -1 if the length is unknown
	Err       error      // sticky; io.EOF once all has been read

	mu         sync.Mutex
	readToEnd  bool // read to its end; a departure watch may then read the connection
	wantsWatch bool // start a departure watch at the body's end
	noWatch    bool // the exchange is over, or the connection was hijacked

	// the client waits for "100 Continue" before it sends the body; never changes
	expectsContinue bool
	Mode            BodyMode // never changes
	isLast          bool     // the client sends no other request on the connection; never changes
	deadlineSet     bool     // the read deadline of this exchange is set; guarded by reading
	Draining        bool     // the handler has returned; guarded by reading
	closing         bool     // Close reads the remainder; guarded by reading

	flags Flags
}

// Flags of a body.
const (
	bodyClosed      = 1 << iota // the handler has closed it or has returned
	bodyInterrupted             // a Read that waits must return
	bodyContinued               // the client has received "100 Continue" or a final response
	bodyWithheld                // the final response came instead: the client may not send the body
	bodyAborted                 // the client has aborted the request and expects no response
	bodyTooLong                 // the remainder was longer than what is drained
	bodyEndsConn                // the response announced that the connection closes because of it
)

// BodyMode is the form of a body in the input.
type BodyMode uint8

const (
	NoBody    BodyMode = iota // there is no body
	ByLength                  // its bytes follow one another
	ByChunks                  // the codec decodes it
	ByRecords                 // like ByChunks, but the codec can skip the remainder
	ByStream                  // like ByChunks, but the remainder holds up no other request
)

// stage is the progress of a response:
//
//	open ──WriteHeader, Write──▶ committed ──frame──▶ framed ──close──▶ finished
//
// A handler that returns without a Write passes through all stages at once.
type stage uint8

const (
	stageOpen stage = iota // the handler may still choose the status and set fields
	// status and fields are fixed and in Conn.Out; the framing is undecided
	stageCommitted
	stageFramed   // the head is complete; body bytes follow it
	stageFinished // the handler has returned
)

// errFinished is returned to goroutines that outlive their handler.
var errFinished = errors.New("http: response written after its handler returned")

// Response is the http.ResponseWriter. It appends to Conn.Out, first the head, once the handler
// commits to it, and then the body. While the length is unknown and the body small, the body waits
// in Conn.heldBody: the handler may return, and the length is then known.
type Response struct {
	x      *Exchange
	Conn   *Conn       // nil once finished
	fields http.Header // nil until Header is called

	Mu         sync.Mutex // goroutines that outlive the handler may still write
	stage      stage
	Minor      uint8 // the request's minor version
	Status     uint16
	IsHEAD     bool  // the request is a HEAD
	IsCONNECT  bool  // the request is a CONNECT of HTTP/1, whose connection is not kept
	ClosesConn bool  // the connection closes after this response
	Chunked    bool  // valid once framed
	NoBody     bool  // valid once committed: the status allows no body
	Flags      Flags // not guarded by Mu; here it needs no padding
	Length     int64 // declared or computed; -1 for unknown
	written    int64 // bytes that the handler has written

	hijacked atomic.Pointer[net.Conn] // set by Hijack; not guarded by Mu
}

// FieldSummary records what the handler's fields contained when they were committed.
type FieldSummary struct {
	hasContentType, hasContentEncoding, hasDate bool
	hasLength, hasTrailers                      bool
	trailer                                     []string // values of Trailer
	fieldCount                                  int      // of the Header
	TransferEncoding                            string
	// values of Connection; written once it is decided whether the connection closes
	Connection []string
	later      connection.HeaderAdder // of WriteRawHeader, until Header is called
}

// Flags are bits that are read without a lock.
type Flags struct{ bits atomic.Uint32 }

const (
	FullDuplex           = 1 << iota // EnableFullDuplex was called
	handlerReadDeadline              // the handler has set a read deadline
	HandlerWriteDeadline             // the handler has set a write deadline
	handlerReturned                  // the handler has returned
	largeHead                        // the request's head is large: see Exchange.splitRequest
)

func (f *Flags) Set(flag uint32)      { f.bits.Or(flag) }
func (f *Flags) Has(flag uint32) bool { return f.bits.Load()&flag != 0 }

// splitRequest moves what refers to a large head out of the exchange, and returns the request for
// the handler. A program that keeps a context, a URL or a body, which are part of the exchange,
// must not keep the large head with it.
func (x *Exchange) splitRequest() *http.Request {
	r := new(http.Request)
	*r = x.Request
	if r.URL == &x.URL {
		r.URL = new(url.URL)
		*r.URL = x.URL
	}
	x.Request = http.Request{Method: r.Method, ContentLength: r.ContentLength}
	x.URL = url.URL{}
	return r
}

// Watched is called with all that has arrived since WatchDeparture. It ends the request's context if
// the client has left or has aborted the request.
func (x *Exchange) Watched(in []byte, hasLeft bool) {
	switch {
	case x.Extras != nil && x.Extras.HasAbort(in):
		x.Abort()
	case hasLeft:
		x.ctx.cancel(context.Canceled)
	}
}

// Abort ends the request's context because the client has aborted the request.
func (x *Exchange) Abort() {
	x.Body.flags.Set(bodyAborted)
	x.ctx.cancel(context.Canceled)
}

// Conn returns the conn that serves the request. It is valid until the handler returns.
func (x *Exchange) Conn() *Conn { return x.Response.Conn }

// HandlerRequest returns the request that the handler has received. It is valid until the handler
// returns.
func (x *Exchange) HandlerRequest() *http.Request { return x.Conn().handlerRequest }

// ErrTarget is the error of a malformed request target.
var ErrTarget = errors.New("malformed request target")

// Prepare sets what all requests of a connection have in common.
func (x *Exchange) Prepare(t Transport, template *http.Request) {
	x.ctx.transport, x.ctx.body = t, &x.Body
	// Only WithContext can set a Request's context. Its copy does not escape, so it costs no
	// allocation (TestRequestsAllocateLittle).
	x.Request = *template.WithContext(&x.ctx)
}

// SetURL sets the URL from RequestURI, and Host if RequestURI names a host.
func (x *Exchange) SetURL() error {
	r := &x.Request
	if path, query, found := strings.Cut(r.RequestURI, "?"); plainPath(path) && (query != "" || !found) {
		x.URL.Path, x.URL.RawQuery = path, query
		r.URL = &x.URL
		return nil
	}
	target := r.RequestURI
	authorityOnly := r.Method == http.MethodConnect && !strings.HasPrefix(target, "/")
	if authorityOnly {
		target = "http://" + target
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return ErrTarget
	}
	if authorityOnly {
		u.Scheme = ""
	}
	r.URL = u
	needsHost := authorityOnly || u.Scheme == "http" || u.Scheme == "https"
	if u.User != nil || (needsHost || u.Host != "") && !http1.ValidHost([]byte(u.Host)) {
		return ErrTarget
	}
	if u.Host != "" {
		r.Host = u.Host // an absolute-form target overrides Host (RFC 9112, 3.2.2)
	}
	return nil
}

// plainPath reports whether s is a path that url.ParseRequestURI would not unescape and that
// url.URL would write back unchanged.
func plainPath(s string) bool {
	if s == "" || s[0] != '/' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '-' && c <= ';' { // - . / digits : ;
			continue
		}
		switch c {
		case '_', '~', '$', '&', '+', ',', '=', '@':
		default:
			return false
		}
	}
	return true
}

// SetHeader fills Request.Header from the fields. n is the expected number of values. canonical
// spells a name that the codec does not know.
func (x *Exchange) SetHeader(fields []http1.Field, n int, text *http1.Text, canonical func(string) string) {
	room := x.values[:0]
	if !text.IsWhole() {
		room = nil // a program that keeps a slice must not keep the exchange with it
		x.Response.Flags.Set(largeHead)
	}
	c := http1.Collect(nil, n, room)
	c.IsRequest = true
	c.AddFields(fields, text, canonical)
	x.Request.Header = c.Fields
}

// HasReturned reports whether the handler has returned.
func (w *Response) HasReturned() bool { return w.Flags.Has(handlerReturned) }

// CheckUsable returns the error for using a response that was hijacked or has ended. The connection
// may by then serve another request, and on shards w.conn may serve another connection.
func (w *Response) CheckUsable() error {
	switch {
	case w.IsHijacked():
		return http.ErrHijacked
	case w.stage == stageFinished:
		return errFinished
	}
	return nil
}

// IsHijacked reports whether the handler has hijacked the connection.
func (w *Response) IsHijacked() bool { return w.hijacked.Load() != nil }
