package front

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tarehq/tare/front/conf"
)

// authRequest is an AuthRequest, compiled.
type authRequest struct {
	uri string
	set []setting
}

// authRequest compiles an AuthRequest; nil makes no subrequest.
func (c *compiler) authRequest(from *conf.AuthRequest) (*authRequest, error) {
	if from == nil || from.URI == "" {
		return nil, nil
	}
	if !strings.HasPrefix(from.URI, "/") {
		return nil, fmt.Errorf("auth_request: invalid path %q: want a leading slash", from.URI)
	}
	q := &authRequest{uri: from.URI}
	for _, s := range from.Set {
		set, err := c.setting(s)
		if err != nil {
			return nil, fmt.Errorf("auth_request_set $%s: %w", s.Name, err)
		}
		q.set = append(q.set, set)
	}
	return q, nil
}

// check makes the subrequest. It returns granted, or the status that rejects the request.
func (q *authRequest) check(x *exchange) int {
	sub := x.subrequest(q.uri)
	defer sub.endSubrequest()
	sub.runSubrequest()
	for i := range q.set {
		s := &q.set[i]
		s.assign(x, s.value.eval(sub))
	}
	x.regexTimedOut = x.regexTimedOut || sub.regexTimedOut
	switch status := sub.responseStatus(); {
	case sub.loggedStatus != 0:
		return statusClientGone
	case status == http.StatusUnauthorized:
		sub.copyChallenge()
		return status
	case status == http.StatusForbidden:
		return status
	case status >= http.StatusOK && status < http.StatusMultipleChoices:
		return granted
	default:
		x.errorf(levelError, "auth request unexpected status: %d", status)
		return http.StatusInternalServerError
	}
}

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

// copyChallenge copies WWW-Authenticate of the subrequest to the client's response, besides that
// for a password.
func (x *exchange) copyChallenge() {
	const name = "Www-Authenticate"
	challenges := x.w.Header()[name]
	if challenges == nil {
		challenges = x.upstreamField(name) // a Proxy may hide it
	}
	if to := x.parent.w.Header(); challenges != nil {
		to[name] = append(to[name][:len(to[name]):len(to[name])], challenges...)
	}
}

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
