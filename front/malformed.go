package front

import (
	"net/http"
)

// hasTooManyFields reports whether a request has more fields than max_headers allows. As in nginx
// the Host of HTTP/1 counts, and pseudo-header fields do not.
func (x *exchange) hasTooManyFields() bool {
	most := x.loc.settings.MaxHeaders
	if most <= 0 {
		return false
	}
	n := len(x.r.TransferEncoding)
	if x.r.ProtoMajor < 2 && x.hostHeader != "" {
		n++
	}
	for _, values := range x.r.Header {
		n += len(values)
	}
	if n > most {
		x.errorf(levelInfo, "client sent too many header lines: %d", n)
	}
	return n > most
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
