package exchange

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

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
		x.ctx.clientLeft()
	}
}

// Abort ends the request's context because the client has aborted the request.
func (x *Exchange) Abort() {
	x.Body.flags.Set(bodyAborted)
	x.ctx.clientLeft()
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
	}
	c := http1.Collect(nil, n, room)
	c.IsRequest = true
	c.AddFields(fields, text, canonical)
	x.Request.Header = c.Fields
}
