package engine

import (
	"errors"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

// inlineValues is how many field values an exchange has room for. With three it just fits the size
// class of 704 bytes (TestExchangeFillsItsSizeClass). Most programs send no more fields besides
// Host. Browsers send many more, and room for those would cost memory for every request.
const inlineValues = 3

// exchange is one request and its response: one allocation that holds everything of fixed size. It
// is made for the request and left to the garbage collector, because handlers may keep a Request, a
// header value or a context indefinitely.
type exchange struct {
	request http.Request
	url     url.URL
	values  [inlineValues]string // backs the Header's slices
	body    body
	ctx     requestContext
	resp    response
}

// splitRequest moves what refers to a large head out of the exchange, and returns the request for
// the handler. A program that keeps a context, a URL or a body, which are part of the exchange,
// must not keep the large head with it.
func (x *exchange) splitRequest() *http.Request {
	r := new(http.Request)
	*r = x.request
	if r.URL == &x.url {
		r.URL = new(url.URL)
		*r.URL = x.url
	}
	x.request = http.Request{Method: r.Method, ContentLength: r.ContentLength}
	x.url = url.URL{}
	return r
}

// conn returns the conn that serves the request. It is valid until the handler returns.
func (x *exchange) conn() *conn { return x.resp.conn }

var (
	errTarget  = errors.New("malformed request target")
	errTrailer = errors.New("trailer field not allowed or too many trailer fields")
)

// newExchange makes an exchange of a complete head. Its error calls for a 400 response and contains
// nothing that the client sent.
func newExchange(c *conn, h *http1.Request, in []byte) (*exchange, error) {
	text := http1.TextOf(in) // for a small head: the one string that all others are parts of
	x := &exchange{}
	x.prepare(c)
	r := &x.request

	r.Method = text.Of(h.Method)
	r.RequestURI = text.Of(h.Target)
	if r.ProtoMinor = h.Minor; h.Minor != 1 {
		r.Proto = "HTTP/1." + string(rune('0'+h.Minor))
	}
	r.Close = !h.Persistent
	if host, ok := h.Host(); ok {
		r.Host = text.Of(host)
	}
	if err := x.setURL(); err != nil {
		return nil, err
	}
	// Host is not in the Header
	x.setHeader(h.Fields, len(h.Fields)-1, &text, textproto.CanonicalMIMEHeaderKey)
	if err := x.setFraming(h); err != nil {
		return nil, err
	}
	x.resp.init(c, x, h.Minor, h.Persistent)
	if !text.IsWhole() {
		x.resp.flags.set(largeHead)
	}
	return x, nil
}

// prepare sets what all requests of c have in common.
func (x *exchange) prepare(c *conn) {
	x.ctx.transport, x.ctx.body = c.transport, &x.body
	// Only WithContext can set a Request's context. Its copy does not escape, so it costs no
	// allocation (TestAllocations).
	x.request = *c.template.WithContext(&x.ctx)
}

// setURL sets the URL from RequestURI, and Host if RequestURI names a host.
func (x *exchange) setURL() error {
	r := &x.request
	if path, query, found := strings.Cut(r.RequestURI, "?"); plainPath(path) && (query != "" || !found) {
		x.url.Path, x.url.RawQuery = path, query
		r.URL = &x.url
		return nil
	}
	target := r.RequestURI
	authorityOnly := r.Method == http.MethodConnect && !strings.HasPrefix(target, "/")
	if authorityOnly {
		target = "http://" + target
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return errTarget
	}
	if authorityOnly {
		u.Scheme = ""
	}
	r.URL = u
	needsHost := authorityOnly || u.Scheme == "http" || u.Scheme == "https"
	if u.User != nil || (needsHost || u.Host != "") && !http1.ValidHost([]byte(u.Host)) {
		return errTarget
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

// setHeader fills Request.Header from the fields. n is the expected number of values. canonical
// spells a name that the codec does not know.
func (x *exchange) setHeader(fields []http1.Field, n int, text *http1.Text, canonical func(string) string) {
	room := x.values[:0]
	if !text.IsWhole() {
		room = nil // a program that keeps a slice must not keep the exchange with it
	}
	c := http1.Collect(nil, n, room)
	for _, f := range fields {
		name := f.Known.String()
		switch f.Known {
		case http1.NameHost, http1.NameTransferEncoding:
			continue // net/http moves them to fields of the Request
		case http1.NameUnknown:
			name = canonical(text.Of(f.Name))
		}
		c.Add(f.Known, name, text.Of(f.Value))
	}
	header := http.Header(c.Fields)
	if pragma, ok := header["Pragma"]; ok && pragma[0] == "no-cache" { // as net/http does
		if _, ok := header["Cache-Control"]; !ok {
			header["Cache-Control"] = []string{"no-cache"}
		}
	}
	x.request.Header = header
}

// setFraming sets the body, ContentLength, TransferEncoding and Trailer of the request.
func (x *exchange) setFraming(h *http1.Request) error {
	r, f := &x.request, h.Body()
	continues, _ := h.ExpectsContinue()
	x.body.init(x, f, continues && h.Minor > 0 && f.Mode != http1.NoBody)
	if f.Mode == http1.NoBody {
		r.Body = http.NoBody
		return nil
	}
	r.Body = &x.body
	r.ContentLength = f.Length
	if f.Mode != http1.ByChunks {
		return nil
	}
	r.ContentLength = -1
	r.TransferEncoding = []string{"chunked"}
	return x.announceTrailer()
}

// announceTrailer moves the Trailer field to Request.Trailer, as keys without values.
func (x *exchange) announceTrailer() error {
	for _, list := range x.request.Header["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			name = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name))
			switch {
			case name == "":
				continue
			case !http1.TrailerAllowed(name), len(x.request.Trailer) >= maxTrailerFields:
				return errTrailer
			case x.request.Trailer == nil:
				x.request.Trailer = make(http.Header)
			}
			x.request.Trailer[name] = nil
		}
	}
	delete(x.request.Header, "Trailer")
	return nil
}
