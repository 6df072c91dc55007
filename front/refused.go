package front

import "net/http"

// LogRefused writes a request that no handler has seen to the access logs: one that the server has refused, or whose head did not
// arrive in time. They are those of the server block that the address and the host name, and of no location. r has what is known of the
// request: RemoteAddr, URL and Header are not nil, and http.LocalAddrContextKey is the listener's address. line is the request line as it
// was received, sent the length of the response's body. It does not wait.
func (h *Handler) LogRefused(r *http.Request, line string, status int, sent int64) {
	p := h.enter()
	if p == nil {
		return
	}
	defer p.leave()
	x := newExchange(p, make(discardWriter), r)
	defer x.end()
	x.rejected = &rejectedRequest{line, sent}
	name, _ := hostName(x.hostHeader)
	x.host = p.hosts.groupOf(r).hostFor(x, name)
	x.loc = &x.host.defaults
	if x.path, _ = requestPath(r.URL, x.host.keepSlashes); x.path == "" {
		x.args = ""
	}
	x.start()
	x.loggedStatus, x.isComplete = status, true
}

// refused is what a log says of a request that the server has refused.
type rejectedRequest struct {
	line string // as it was received
	sent int64  // bytes of the response's body
}
