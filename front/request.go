package front

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/front/internal/hostname"
	"github.com/tarehq/tare/internal/connection"
)

// hostName returns the normalized name in Host; empty if it has none.
func (x *exchange) hostName() string {
	name, _ := hostname.Parse(x.hostHeader)
	return name
}

// hostOrServerName is $host.
func (x *exchange) hostOrServerName() string {
	if name := x.hostName(); name != "" {
		return name
	}
	return x.host.name
}

// requestURI returns the request target as received, without scheme and host.
func requestURI(x *exchange) string {
	uri := x.r.RequestURI
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
func requestMethod(x *exchange) string {
	if x.parent != nil {
		return x.parent.method
	}
	return x.method
}

// requestLine returns the client's request line.
func requestLine(x *exchange) string {
	if x.rejected != nil {
		return x.rejected.line
	}
	r := x.clientRequest()
	return r.Method + " " + r.RequestURI + " " + r.Proto
}

func isArgs(x *exchange) string {
	if x.args == "" {
		return ""
	}
	return "?"
}

func scheme(x *exchange) string {
	if x.r.TLS != nil {
		return "https"
	}
	return "http"
}

func https(x *exchange) string {
	if x.r.TLS != nil {
		return "on"
	}
	return ""
}

func http2(x *exchange) string {
	switch {
	case x.r.ProtoMajor != 2:
		return ""
	case x.r.TLS == nil:
		return "h2c"
	}
	return "h2"
}

func http3(x *exchange) string {
	if x.r.ProtoMajor != 3 {
		return ""
	}
	return "h3"
}

// localAddr returns the server's address of the connection, or nil if the server does not provide
// it.
func (x *exchange) localAddr() net.Addr {
	a, _ := x.r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return a
}

func serverAddr(x *exchange) string {
	switch a := x.localAddr().(type) {
	case *net.TCPAddr:
		return x.plan.state.addressText(a.IP)
	case *net.UDPAddr:
		return x.plan.state.addressText(a.IP)
	case *net.UnixAddr:
		return "unix:" + a.Name
	}
	return ""
}

// addressText returns an address of the server as text. Most requests arrive at the same one.
func (s *state) addressText(ip net.IP) string {
	a, _ := netip.AddrFromSlice(ip)
	last := s.lastAddress.Load()
	if last == nil || last.addr != a {
		last = &addressText{a, a.Unmap().String()}
		s.lastAddress.Store(last)
	}
	return last.text
}

// addressText is an address of the server.
type addressText struct {
	addr netip.Addr
	text string
}

func serverPort(x *exchange) string {
	switch a := x.localAddr().(type) {
	case *net.TCPAddr:
		return strconv.Itoa(a.Port)
	case *net.UDPAddr:
		return strconv.Itoa(a.Port)
	}
	return ""
}

// requestLength is $request_length: the lengths of the head, and of the body as far as it was read.
func requestLength(x *exchange) string {
	n := x.headLength()
	if x.body != nil {
		n += x.body.received.Load() + x.body.framing.Load()
	}
	return strconv.FormatInt(n, 10)
}

// headLength returns the length of the request's head. A head of HTTP/1 counts as it would be
// written again; it may have been sent with other space.
func (x *exchange) headLength() int64 {
	if x.originalHead > 0 {
		return x.originalHead
	}
	if sent, ok := connection.Of(x.r.Context()).(connection.HeadMeasurer); ok {
		return sent.HeadLength()
	}
	const line, field = len("  \r\n\r\n"), len(": \r\n")
	n := len(x.r.Method) + len(x.r.RequestURI) + len(x.r.Proto) + line
	if x.hostHeader != "" {
		n += len("Host") + len(x.hostHeader) + field
	}
	for name, values := range x.r.Header {
		for _, v := range values {
			n += len(name) + len(v) + field
		}
	}
	if x.r.ProtoMajor == 1 && x.r.Header["Content-Length"] == nil && (x.body != nil || x.r.ContentLength != 0) {
		n += len("Transfer-Encoding") + len("chunked") + field
	}
	return int64(n)
}

// requestID is $request_id: 16 random bytes, the same for the request and its subrequests.
func requestID(x *exchange) string {
	if x.parent != nil {
		return requestID(x.parent)
	}
	if x.id == "" {
		x.id = randomHex(16)
	}
	return x.id
}

// randomHex returns n random bytes in hexadecimal.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it returns no error
	return hex.EncodeToString(b)
}

func requestTime(x *exchange) string { return seconds(time.Since(x.startTime)) }

// seconds formats a duration as nginx does, in seconds with milliseconds.
func seconds(d time.Duration) string {
	ms := d.Milliseconds()
	return fmt.Sprintf("%d.%03d", ms/1000, ms%1000)
}

func requestCompletion(x *exchange) string {
	if x.isComplete {
		return "OK"
	}
	return ""
}

// contentLengthVariable is $content_length: that of the field, or, as in nginx, the length of the
// body once it was received completely.
func contentLengthVariable(x *exchange) string {
	if x.parent != nil {
		x = x.parent
	}
	if b := x.body; b != nil && b.isComplete.Load() && x.r.Header["Content-Length"] == nil {
		return strconv.FormatInt(b.received.Load(), 10)
	}
	return contentLength(x.r)
}

func appendRequestLine(b []byte, x *exchange, escape escapeFunc) []byte {
	if x.rejected != nil {
		return escape(b, truncateLogged(x.rejected.line))
	}
	b = append(escape(b, x.r.Method), ' ')
	b = append(escape(b, x.r.RequestURI), ' ')
	return escape(b, x.r.Proto)
}

func appendStatus(b []byte, x *exchange, _ escapeFunc) []byte {
	return strconv.AppendInt(b, int64(x.responseStatus()), 10)
}

func appendBodyBytes(b []byte, x *exchange, _ escapeFunc) []byte {
	return strconv.AppendInt(b, x.responseBytes(), 10)
}

func appendTime(b []byte, x *exchange, _ escapeFunc) []byte {
	return append(b, x.plan.state.logBuffers.Local(time.Now())...)
}

// escapeFunc appends an escaped string.
type escapeFunc func(b []byte, s string) []byte

// clfTime is the layout of times in access logs.
const clfTime = "02/Jan/2006:15:04:05 -0700"
