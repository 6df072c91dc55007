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
)

// hostName is the name that the request asks for, as hosts are compared with; empty if it names none.
func (x *exchange) hostName() string {
	name, _ := hostName(x.hostHeader)
	return name
}

// hostOrName is $host.
func (x *exchange) hostOrServerName() string {
	if name := x.hostName(); name != "" {
		return name
	}
	return x.host.name
}

// requestURI is the request's target as it came, without scheme and host.
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

// requestMethod is the client's, or GET once an error page answers. A subrequest does not change it.
func requestMethod(x *exchange) string {
	if x.parent != nil {
		return x.parent.method
	}
	return x.method
}

// requestLine is the client's.
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

// local is the address that the client has connected to, nil if the server does not say.
func (x *exchange) localAddr() net.Addr {
	a, _ := x.r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return a
}

func serverAddr(x *exchange) string {
	switch a := x.localAddr().(type) {
	case *net.TCPAddr:
		return unmapped(a.IP)
	case *net.UnixAddr:
		return "unix:" + a.Name
	}
	return ""
}

func unmapped(ip net.IP) string {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap().String()
}

func serverPort(x *exchange) string {
	if a, ok := x.localAddr().(*net.TCPAddr); ok {
		return strconv.Itoa(a.Port)
	}
	return ""
}

func remoteUser(x *exchange) string {
	user, _, _ := basicAuth(x.r)
	return user
}

// requestLength is about the number of bytes of the request: those of its head as it would be written, and of its body if the
// client says it.
func requestLength(x *exchange) string {
	const line, field = len("  \r\n\r\n"), len(": \r\n")
	n := int64(len(x.r.Method) + len(x.r.RequestURI) + len(x.r.Proto) + line)
	if x.hostHeader != "" {
		n += int64(len("Host") + len(x.hostHeader) + field)
	}
	for name, values := range x.r.Header {
		for _, v := range values {
			n += int64(len(name) + len(v) + field)
		}
	}
	if x.r.ContentLength > 0 {
		length := strconv.FormatInt(x.r.ContentLength, 10)
		n += x.r.ContentLength
		if x.r.Header["Content-Length"] == nil {
			n += int64(len("Content-Length") + len(length) + field)
		}
	}
	return strconv.FormatInt(n, 10)
}

// requestID is 16 random bytes, the same for all of a request.
func requestID(x *exchange) string {
	if x.parent != nil {
		return requestID(x.parent)
	}
	if x.id == "" {
		var b [16]byte
		_, _ = rand.Read(b[:]) // it never fails
		x.id = hex.EncodeToString(b[:])
	}
	return x.id
}

func requestTime(x *exchange) string { return seconds(time.Since(x.startTime)) }

// seconds writes a duration as nginx does, to the millisecond.
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

// contentLength is the length of the request's body, as the client says it; empty if it does not.
func contentLength(r *http.Request) string {
	if r.ContentLength > 0 || r.ContentLength == 0 && r.Header["Content-Length"] != nil {
		return strconv.FormatInt(r.ContentLength, 10)
	}
	return ""
}

// joined is a field's value, whatever number of lines it came in.
func joinValues(values []string) string {
	switch len(values) {
	case 0:
		return ""
	case 1:
		return values[0]
	}
	return strings.Join(values, ", ")
}

// argument is the value of the first argument of that name in a query, as it is there; names are compared without regard to case.
func argument(args, name string) string {
	for args != "" {
		var one string
		one, args, _ = strings.Cut(args, "&")
		if len(one) > len(name) && one[len(name)] == '=' && strings.EqualFold(one[:len(name)], name) {
			return one[len(name)+1:]
		}
	}
	return ""
}

// cookie is the value of the first cookie of that name; names are compared without regard to case. As in nginx a comma may be before a
// cookie, too, but ends none, and spaces around the equals sign do not count.
func cookie(lines []string, name string) string {
	for _, line := range lines {
		for line != "" {
			line = strings.TrimLeft(line, " ")
			if len(line) > len(name) && strings.EqualFold(line[:len(name)], name) {
				if value, ok := strings.CutPrefix(strings.TrimLeft(line[len(name):], " "), "="); ok {
					value, _, _ = strings.Cut(strings.TrimLeft(value, " "), ";")
					return value
				}
			}
			end := strings.IndexAny(line, ";,")
			if end < 0 {
				break
			}
			line = line[end+1:]
		}
	}
	return ""
}

// limitRate is the rate that Set has asked for, in the words that it was asked for with.
func limitRate(x *exchange) string {
	if x.limitRate == "" {
		return "0"
	}
	return x.limitRate
}
