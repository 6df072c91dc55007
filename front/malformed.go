package front

import (
	"net"
	"net/http"
	"strconv"
	"strings"
)

// isMalformed reports whether nginx rejects a request with 400, although a server may have accepted
// it. Its method has characters other than upper-case letters, '_' and '-', a singleton field is
// repeated, there are more fields than max_headers allows, or it names no host, or two. Otherwise
// rules of the configuration and applications would disagree about the request.
func (x *exchange) isMalformed() bool {
	return !validMethod(x.r.Method) || x.hasInvalidFields() || !namesOneHost(x.r)
}

// hasInvalidFields reports whether a singleton field is repeated, or there are too many fields. As
// in nginx the Host of HTTP/1 counts, and pseudo-header fields do not.
func (x *exchange) hasInvalidFields() bool {
	n, most := len(x.r.TransferEncoding), x.loc.settings.MaxHeaders
	if x.r.ProtoMajor < 2 && x.hostHeader != "" {
		n++
	}
	for name, values := range x.r.Header {
		n += len(values)
		if len(values) > 1 && isSingleton(name) {
			return true
		}
	}
	if most <= 0 || n <= most {
		return false
	}
	x.errorf(levelInfo, "client sent too many header lines: %d", n)
	return true
}

// validMethod reports whether nginx accepts a method.
func validMethod(method string) bool {
	for i := range len(method) {
		if c := method[i]; (c < 'A' || c > 'Z') && c != '_' && c != '-' {
			return false
		}
	}
	return method != ""
}

func isSingleton(name string) bool {
	switch name {
	case "Authorization", "Content-Length", "Content-Range", "Expect", "If-Match", "If-Modified-Since",
		"If-None-Match", "If-Range", "If-Unmodified-Since":
		return true
	}
	return false
}

// namesOneHost reports whether a request names one host, which HTTP/1.0 does not require. Over
// HTTP/2 a Host field besides :authority must have the same value (RFC 9113, 8.3.1). net/http
// leaves that field in the header.
func namesOneHost(r *http.Request) bool {
	if r.ProtoMajor < 2 {
		return r.Host != "" || r.ProtoMinor == 0
	}
	hosts := r.Header["Host"]
	return r.Host != "" && (len(hosts) == 0 || len(hosts) == 1 && strings.EqualFold(hosts[0], r.Host))
}

// rejectMethod rejects CONNECT and TRACE, as nginx does. CONNECT must have a target of a host and a
// port (RFC 9112, 3.2.3). The connection of HTTP/1 closes: what follows may be meant for another
// server.
func (x *exchange) rejectMethod() outcome {
	if x.r.ProtoMajor == 1 {
		x.w.Header()["Connection"] = []string{"close"}
		if x.method == http.MethodConnect && !isAuthority(x.r.RequestURI) {
			return x.fail(http.StatusBadRequest)
		}
	}
	return x.fail(http.StatusMethodNotAllowed)
}

// isAuthority reports whether a target is HOST:PORT.
func isAuthority(target string) bool {
	host, port, err := net.SplitHostPort(target)
	if err != nil || host == "" {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}
