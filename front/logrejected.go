package front

import (
	"net/http"

	"github.com/tarehq/tare/front/internal/hostname"
	"github.com/tarehq/tare/front/internal/uri"
)

// LogRejected logs a request that no handler has seen: the server has rejected it, or its head did
// not arrive in time. It uses the access logs of the server block for the address and the host, and
// of no location.
//
// r has what is known of the request. RemoteAddr, URL and Header must not be nil, and
// http.LocalAddrContextKey is the listener's address. line is the request line as received, sent
// the length of the response's body. LogRejected does not block.
func (h *Handler) LogRejected(r *http.Request, line string, status int, sent int64) {
	p := h.enter()
	if p == nil {
		return
	}
	defer p.leave()
	x := newExchange(p, make(discardWriter), r)
	defer x.end()
	x.rejected = &rejectedRequest{line, sent}
	name, _ := hostname.Parse(x.hostHeader)
	x.host = p.hosts.groupOf(r).hostFor(x, name)
	x.loc = &x.host.defaults
	if x.path, _ = uri.RequestPath(r.URL, x.host.keepSlashes); x.path == "" {
		x.args = ""
	}
	x.start()
	x.loggedStatus, x.isComplete = status, true
}
