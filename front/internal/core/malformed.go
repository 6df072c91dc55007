package core

import (
	"net/http"

	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/message"
)

// hasTooManyFields reports whether a request has more fields than max_headers allows. As in nginx
// the Host of HTTP/1 counts, and pseudo-header fields do not.
func (x *Exchange) hasTooManyFields() bool {
	most := x.Loc.Settings.MaxHeaders
	if most <= 0 {
		return false
	}
	n := len(x.Request.TransferEncoding)
	if x.Request.ProtoMajor < 2 && x.HostHeader != "" {
		n++
	}
	for _, values := range x.Request.Header {
		n += len(values)
	}
	if n > most {
		x.Errorf(errorlog.LevelInfo, "client sent too many header lines: %d", n)
	}
	return n > most
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
