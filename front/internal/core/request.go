package core

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/hostname"
	"github.com/tarehq/tare/front/internal/message"
	"github.com/tarehq/tare/front/internal/realip"
	"github.com/tarehq/tare/front/internal/uri"
	"github.com/tarehq/tare/internal/connection"
)

// hostName returns the normalized name in Host; empty if it has none.
func (x *Exchange) hostName() string {
	name, _ := hostname.Parse(x.HostHeader)
	return name
}

// HostOrServerName is $host.
func (x *Exchange) HostOrServerName() string {
	if name := x.hostName(); name != "" {
		return name
	}
	return x.Host.name
}

// RequestURI returns the request target as received, without scheme and host.
func RequestURI(x *Exchange) string {
	uri := x.Request.RequestURI
	if strings.HasPrefix(uri, "/") {
		return uri
	}
	if _, rest, ok := strings.Cut(uri, "://"); ok {
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			return "/" + strings.TrimPrefix(rest[i:], "/")
		}
		return "/"
	}
	return uri
}

// requestMethod returns the client's method, or GET for an error page. A subrequest does not change
// it.
func requestMethod(x *Exchange) string { return x.Root().Method }

func requestLine(x *Exchange) string {
	return string(appendRequestLine(nil, x, func(b []byte, s string) []byte { return append(b, s...) }))
}

// Scheme is $scheme.
func Scheme(x *Exchange) string {
	if x.Request.TLS != nil {
		return "https"
	}
	return "http"
}

func http2(x *Exchange) string {
	switch {
	case x.Request.ProtoMajor != 2:
		return ""
	case x.Request.TLS == nil:
		return "h2c"
	}
	return "h2"
}

// LocalAddr returns the server's address of the connection, or nil if the server does not provide
// it.
func (x *Exchange) LocalAddr() net.Addr {
	a, _ := x.Request.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return a
}

// LocalAddrPort returns the LocalAddr of TCP or UDP, otherwise the zero value.
func (x *Exchange) LocalAddrPort() netip.AddrPort {
	if a, ok := x.LocalAddr().(interface{ AddrPort() netip.AddrPort }); ok {
		return a.AddrPort()
	}
	return netip.AddrPort{}
}

func serverAddr(x *Exchange) string {
	if a, ok := x.LocalAddr().(*net.UnixAddr); ok {
		return "unix:" + a.Name
	}
	if at := x.LocalAddrPort(); at.IsValid() {
		return x.Plan.State.addressText(at.Addr())
	}
	return ""
}

// addressText returns an address of the server as text. Most requests arrive at the same one.
func (s *State) addressText(a netip.Addr) string {
	last := s.lastAddress.Load()
	if last == nil || last.addr != a {
		last = &addressText{a, a.Unmap().WithZone("").String()}
		s.lastAddress.Store(last)
	}
	return last.text
}

type addressText struct {
	addr netip.Addr
	text string
}

func serverPort(x *Exchange) string { return realip.PortString(x.LocalAddrPort()) }

// requestLength is $request_length: the lengths of the head, and of the body as far as it was read.
// A subrequest was not received.
func requestLength(x *Exchange) string {
	if x.Parent != nil {
		return "0"
	}
	n := x.headLength()
	if x.Body != nil {
		n += x.Body.received.Load() + x.Body.framing.Load()
	}
	return strconv.FormatInt(n, 10)
}

// headLength returns the length of the request's head. A head of HTTP/1 counts as it would be
// written again; it may have been sent with other space.
func (x *Exchange) headLength() int64 {
	r := x.Request
	if x.dropped != nil {
		r = x.dropped
	}
	if sent, ok := connection.Of(r.Context()).(connection.HeadMeasurer); ok {
		return sent.HeadLength()
	}
	const line, field = len("  \r\n\r\n"), len(": \r\n")
	n := len(r.Method) + len(r.RequestURI) + len(r.Proto) + line
	if x.HostHeader != "" {
		n += len("Host") + len(x.HostHeader) + field
	}
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v) + field
		}
	}
	if r.ProtoMajor == 1 && r.Header["Content-Length"] == nil && (x.Body != nil ||
		r.ContentLength != 0) {
		n += len("Transfer-Encoding") + len("chunked") + field
	}
	return int64(n)
}

// RequestID is $request_id: 16 random bytes, the same for the request and its subrequests.
func RequestID(x *Exchange) string {
	if x = x.Root(); x.ID == "" {
		x.ID = RandomHex(16)
	}
	return x.ID
}

// RandomHex returns n random bytes in hexadecimal.
func RandomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it returns no error
	return hex.EncodeToString(b)
}

// Seconds formats a duration as nginx does, in seconds with milliseconds.
func Seconds(d time.Duration) string {
	ms := d.Milliseconds()
	return fmt.Sprintf("%d.%03d", ms/1000, ms%1000)
}

// contentLengthVariable is $content_length: that of the field, or, as in nginx, the length of the
// body once it was received completely or the response has begun. It is 0 if nothing reads the body.
func contentLengthVariable(x *Exchange) string {
	x = x.Root()
	r, b, hasBegun := x.ClientRequest(), x.Body, x.ResponseStatus() != 0
	switch {
	case r.Header["Content-Length"] != nil:
	case b != nil && x.dropped == nil && (hasBegun || b.IsComplete.Load()):
		return strconv.FormatInt(b.received.Load(), 10)
	case hasBegun && r.ContentLength < 0:
		return "0"
	}
	return message.ContentLength(r)
}

func appendRequestLine(b []byte, x *Exchange, escape EscapeFunc) []byte {
	if x.rejected != nil {
		return escape(b, errorlog.Truncate(x.rejected.line))
	}
	r := x.ClientRequest()
	b = append(escape(b, r.Method), ' ')
	b = append(escape(b, r.RequestURI), ' ')
	return escape(b, r.Proto)
}

func appendStatus(b []byte, x *Exchange, _ EscapeFunc) []byte {
	return strconv.AppendInt(b, int64(x.ResponseStatus()), 10)
}

func appendBodyBytes(b []byte, x *Exchange, _ EscapeFunc) []byte {
	return strconv.AppendInt(b, x.ResponseBytes(), 10)
}

// EscapeFunc appends an escaped string.
type EscapeFunc func(b []byte, s string) []byte

// findPath sets the path for which locations are searched. It returns false if the request target
// has none.
//
// A client must not send a fragment (RFC 9112, 3.2). As in nginx it belongs neither to the path nor
// to the query. Unlike nginx the front does not forward it, because servers differ in how they
// treat it.
func (x *Exchange) findPath() (ok bool) {
	target := x.Request.URL
	if before, _, has := strings.Cut(x.Request.RequestURI, "#"); has {
		u, err := url.ParseRequestURI(before)
		if err != nil {
			return false
		}
		target, x.Args, x.URIChanged = u, u.RawQuery, true
	}
	x.Path, ok = uri.RequestPath(target, x.Host.KeepSlashes)
	return ok
}

// isMalformed reports whether nginx rejects the request with 400: it is malformed, or has more
// fields than max_headers allows. As in nginx the Host of HTTP/1 counts, and pseudo-header fields
// do not.
func (x *Exchange) isMalformed() bool {
	isMalformed, n := message.Malformed(x.Request)
	most := x.Loc.Settings.MaxHeaders
	n += len(x.Request.TransferEncoding)
	if x.Request.ProtoMajor < 2 && x.HostHeader != "" {
		n++
	}
	if isMalformed || most <= 0 || n <= most {
		return isMalformed
	}
	x.Errorf(errorlog.LevelInfo, "client sent too many header lines: %d", n)
	return true
}

// rejectMethod rejects CONNECT and TRACE, as nginx does. CONNECT must have a target of a host and a
// port (RFC 9112, 3.2.3). The connection of HTTP/1 closes: what follows may be meant for another
// server.
func (x *Exchange) rejectMethod() Outcome {
	if x.Request.ProtoMajor == 1 {
		x.Response.Header()["Connection"] = []string{"close"}
		if x.Method == http.MethodConnect && !message.IsAuthority(x.Request.RequestURI) {
			return x.Fail(http.StatusBadRequest)
		}
	}
	return x.Fail(http.StatusMethodNotAllowed)
}

// RequestField returns the value of $http_NAME. A name with hyphens comes before one with
// underscores.
func (x *Exchange) RequestField(name string) []string {
	header := x.ClientRequest().Header
	if v, ok := header[name]; ok || x.Host == nil || x.Host.Fields == (message.FieldNames{}) {
		return v
	}
	switch name {
	// nginx finds these by their exact names only
	case "User-Agent", "Referer", "Via", "X-Forwarded-For":
		return nil
	}
	found := ""
	for other := range header {
		if message.ConfusedWith(other) == name && x.Host.Fields.Allows(other) && (found == "" || other < found) {
			found = other
		}
	}
	return header[found]
}
