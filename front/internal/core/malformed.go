package core

import (
	"net/http"

	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/message"
)

// isMalformed reports whether nginx rejects a request with 400, although a server may have accepted
// it. Its method has characters other than upper-case letters, '_' and '-', a singleton field is
// repeated, there are more fields than max_headers allows, or it names no host, or two. Otherwise
// rules of the configuration and applications would disagree about the request.
func (x *Exchange) isMalformed() bool {
	return !message.ValidMethod(x.Request.Method) || x.hasInvalidFields() || !message.NamesOneHost(x.Request)
}

// hasInvalidFields reports whether a singleton field is repeated, or there are too many fields. As
// in nginx the Host of HTTP/1 counts, and pseudo-header fields do not.
func (x *Exchange) hasInvalidFields() bool {
	n, most := len(x.Request.TransferEncoding), x.Loc.Settings.MaxHeaders
	if x.Request.ProtoMajor < 2 && x.HostHeader != "" {
		n++
	}
	for name, values := range x.Request.Header {
		n += len(values)
		if len(values) > 1 && message.IsSingleton(name) {
			return true
		}
	}
	if most <= 0 || n <= most {
		return false
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
