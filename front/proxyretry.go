package front

import "net/http"

// isRepeatable reports whether a request may be sent again after a server has received some of it.
// As in nginx a body that is streamed is sent once, and the client's method counts even if the
// request has another one.
func (p *proxy) isRepeatable(method string, q *requestSpec) bool {
	if q.body != nil && q.body.stream != nil {
		return false
	}
	return p.next.NonIdempotent || idempotent(method) && idempotent(q.method)
}

// idempotent reports whether a method is idempotent (RFC 9110, 9.2.2). nginx assumes this of all
// methods except POST, LOCK and PATCH. Here an unknown method is not idempotent.
func idempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodTrace,
		"COPY", "MKCOL", "MOVE", "PROPFIND", "PROPPATCH", "UNLOCK", // RFC 4918
		"QUERY", "REPORT", "SEARCH":
		return true
	}
	return false
}

// canRepeat reports whether a request may be sent again to a server that has closed a kept
// connection before its response began. nginx counts this as an error of the server: with
// proxy_next_upstream off it does not repeat.
func (a *attempt) canRepeat() bool {
	s := a.req
	n := &s.proxy.next
	return s.spec.isRepeatable && n.Error && !n.Off && !s.retryTimeIsOver()
}

// canRepeat is the client's Repeatable. It ignores whether the front's client declares its request
// idempotent.
func canRepeat(r *http.Request) bool {
	a, _ := r.Context().Value(attemptKey{}).(*attempt)
	return a != nil && a.canRepeat()
}
