package engine

import (
	"errors"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

// inlineValues is how many field values an exchange has room for in itself: with these it
// just fits a size class of 704 bytes (TestExchangeFillsItsClass). Most programs send no
// more beside Host, and browsers many more; each one's room is everybody's memory.
const inlineValues = 3

// exchange is one request and its response: the slab that holds everything of
// them that has a fixed size. It is allocated for the request and left to the
// garbage collector, because handlers keep what they are given: a Request, a
// header value or a context may live for ever.
type exchange struct {
	request http.Request
	url     url.URL
	values  [inlineValues]string // what the Header's slices point into
	body    body
	ctx     requestContext
	resp    response
}

// separate moves what a large head fills out of the slab, and returns the request for the handler. A context, a URL or a
// body that a program keeps, each of which is in the slab, must not keep it.
func (x *exchange) separate() *http.Request {
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

// conn is the connection that the request came by. It is for the time until the
// handler returns.
func (x *exchange) conn() *conn { return x.resp.conn }

var (
	errTarget  = errors.New("malformed request target")
	errTrailer = errors.New("trailer fields announced that cannot be")
)

// newExchange makes the request that a complete head describes. Its error deserves
// a 400 and holds nothing that the client sent.
func newExchange(c *conn, h *http1.Request, in []byte) (*exchange, error) {
	text := http1.TextOf(in) // of a small head the one string that all others are parts of
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
	if err := x.route(); err != nil {
		return nil, err
	}
	x.header(h.Fields, len(h.Fields)-1, &text, textproto.CanonicalMIMEHeaderKey) // one of them is Host
	if err := x.framing(h); err != nil {
		return nil, err
	}
	x.resp.init(c, x, h.Minor, h.Persistent)
	if !text.IsWhole() {
		x.resp.marks.set(isLarge)
	}
	return x, nil
}

// prepare fills in what all requests of c have in common.
func (x *exchange) prepare(c *conn) {
	x.ctx.link, x.ctx.body = c.link, &x.body
	// WithContext alone can set a Request's context. Its copy does not escape from
	// here, so that it costs no allocation (TestAllocations).
	x.request = *c.template.WithContext(&x.ctx)
}

// route sets the URL from RequestURI, and Host if that names one.
func (x *exchange) route() error {
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
		r.Host = u.Host // RFC 9112, 3.2.2: an absolute target wins over Host
	}
	return nil
}

// plainPath reports whether url.ParseRequestURI would take s for a path that needs
// no unescaping and that url.URL would write back as it is.
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

// header fills Request.Header from the fields, with n values most likely. canonical spells a
// name that the codec does not know.
func (x *exchange) header(fields []http1.Field, n int, text *http1.Text, canonical func(string) string) {
	room := x.values[:0]
	if !text.IsWhole() {
		room = nil // a slice that is kept shall not keep the request
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

// framing sets what the request says about its body.
func (x *exchange) framing(h *http1.Request) error {
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

// announceTrailer moves the Trailer field to Request.Trailer, as keys without
// values.
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
