package front

import "net/http"

// subrequest makes an exchange for another path of the host on behalf of x. It shares the variables
// and limits of x, has a request of its own, and its response is discarded. It skips the access
// phase, so that it makes no further subrequests.
func (x *exchange) subrequest(path string) *exchange {
	if x.vars == nil && x.plan.slots > 0 {
		x.vars = make([]value, x.plan.slots)
	}
	sub := &exchange{
		plan: x.plan, parent: x, r: subrequestOf(x.r), hostHeader: x.hostHeader,
		connUse: x.connUse, method: http.MethodGet,
		host: x.host, loc: &x.host.defaults, path: path, internal: true, uriChanged: true, vars: x.vars,
		isObserved: true,
	}
	sub.startTime, sub.address, sub.requestLimit, sub.connLimit = x.startTime, x.address, x.requestLimit, x.connLimit
	sub.w = writer{ResponseWriter: make(discardWriter), x: sub}
	return sub
}

// subrequestOf returns the request of a subrequest: a GET without a body, and without fields about
// the body, the connection or conditions.
func subrequestOf(r *http.Request) *http.Request {
	q := new(http.Request)
	*q = *r
	q.Method, q.Body, q.ContentLength, q.TransferEncoding, q.Trailer = http.MethodGet, http.NoBody, 0, nil, nil
	copied := false
	for _, name := range [...]string{
		"Content-Length", "Expect", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range",
		"If-Unmodified-Since", "Range", "Trailer", "Upgrade",
	} {
		if _, ok := r.Header[name]; !ok {
			continue
		}
		if !copied {
			q.Header, copied = r.Header.Clone(), true
		}
		delete(q.Header, name)
	}
	return q
}

// runSubrequest runs the phases of a subrequest.
func (x *exchange) runSubrequest() {
	for out := relocate; out == relocate; {
		out = x.runPhases()
	}
	x.complete()
}

// endSubrequest releases what the subrequest holds. Places in limits stay with the parent. It is
// also called after a panic, which rejects the request.
func (x *exchange) endSubrequest() {
	x.closeProxyState()
	x.w.release()
	x.logSubrequest()
	p := x.parent
	p.limitReleases, p.requestLimit, p.connLimit = append(p.limitReleases, x.limitReleases...), x.requestLimit,
		x.connLimit
	if x.loggedStatus != 0 {
		p.loggedStatus = x.loggedStatus // the client has gone, or the connection is closed
	}
	x.recycleProxyState()
}

// discardsBody reports whether the body of the response is not needed.
func (x *exchange) discardsBody() bool { return x.parent != nil && x.addedTo == nil }

// clientRequest returns the request that the client has sent, also for a subrequest.
func (x *exchange) clientRequest() *http.Request {
	if x.parent != nil {
		return x.parent.r
	}
	return x.r
}

// discardWriter is the http.ResponseWriter of subrequests. It keeps the header and discards the
// body.
type discardWriter http.Header

// Header implements http.ResponseWriter.
func (u discardWriter) Header() http.Header { return http.Header(u) }

// WriteHeader implements http.ResponseWriter.
func (discardWriter) WriteHeader(int) {}

// Write implements http.ResponseWriter.
func (discardWriter) Write(p []byte) (int, error) { return len(p), nil }
