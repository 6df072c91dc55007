package core

import (
	"net/http"

	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/message"
)

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
