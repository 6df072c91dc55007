package front

import "net/http"

// mayRepeat reports whether a request may be sent again after a server has received it, at least in part. As in nginx, a body that is
// sent while it comes is sent once, and the client's method counts even if the request has another one.
func (p *proxy) isRepeatable(method string, q *requestSpec) bool {
	if q.body != nil && q.body.stream != nil {
		return false
	}
	return p.next.NonIdempotent || idempotent(method) && idempotent(q.method)
}

// idempotent reports whether the effect of a method is the same if a request is done twice (RFC 9110, 9.2.2). nginx takes this for granted
// of all methods but POST, LOCK and PATCH. Here a method has to be known for it, because nobody knows what another one does.
func idempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodTrace,
		"COPY", "MKCOL", "MOVE", "PROPFIND", "PROPPATCH", "UNLOCK", // RFC 4918
		"QUERY", "REPORT", "SEARCH":
		return true
	}
	return false
}

// repeatable reports whether the request of an attempt may be sent to the same server again, because a kept connection was closed
// before anything came back. nginx counts that as an error of the server: with proxy_next_upstream off it sends nothing again.
func (a *attempt) canRepeat() bool {
	s := a.req
	n := &s.proxy.next
	return s.isRepeatable && n.Error && !n.Off && !s.retryTimeIsOver()
}

// repeatable is the client's Repeatable. Whether the client of the front calls its request idempotent does not matter.
func canRepeat(r *http.Request) bool {
	a, _ := r.Context().Value(attemptKey{}).(*attempt)
	return a != nil && a.canRepeat()
}
