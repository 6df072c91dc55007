package front

import (
	"fmt"
	"net/http"
	"strings"
)

// authRequest is an AuthRequest, compiled.
type authRequest struct {
	uri string
	set []setting
}

// authRequest compiles an AuthRequest; nil asks nobody.
func (c *compiler) authRequest(from *AuthRequest) (*authRequest, error) {
	if from == nil || from.URI == "" {
		return nil, nil
	}
	if !strings.HasPrefix(from.URI, "/") {
		return nil, fmt.Errorf("auth_request: %q is no path: want one that begins with a slash", from.URI)
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

// check asks. It returns granted, or a status that is to be answered.
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

// subrequest asks for another path of the host, on behalf of x. It has the variables of x, which stay, and its limits, but a request of its
// own and an answer that nobody gets. It never passes the access phase, so that it makes no others.
func (x *exchange) subrequest(path string) *exchange {
	if x.vars == nil && x.plan.slots > 0 {
		x.vars = make([]value, x.plan.slots)
	}
	sub := &exchange{
		plan: x.plan, parent: x, w: make(discardWriter), r: subrequestOf(x.r), hostHeader: x.hostHeader, connUse: x.connUse, method: http.MethodGet,
		host: x.host, loc: &x.host.defaults, path: path, internal: true, uriChanged: true, vars: x.vars,
	}
	sub.startTime, sub.address, sub.requestLimit, sub.connLimit = x.startTime, x.address, x.requestLimit, x.connLimit
	sub.wrapWriter() // whatever answers, its status is asked for
	return sub
}

// subrequestOf is a client's request as it asks for something else: by GET and without a body, nor anything that the client says of the body,
// or wants of the connection or of no other answer than its own.
func subrequestOf(r *http.Request) *http.Request {
	q := new(http.Request)
	*q = *r
	q.Method, q.Body, q.ContentLength, q.TransferEncoding, q.Trailer = http.MethodGet, http.NoBody, 0, nil, nil
	copied := false
	for _, name := range [...]string{
		"Content-Length", "Expect", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Range", "Trailer", "Upgrade",
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

// answerAll has the subrequest be answered.
func (x *exchange) runSubrequest() {
	for out := relocate; out == relocate; {
		out = x.runPhases()
	}
	x.complete()
}

// leave gives back what the subrequest holds, but for what counts it in limits: that goes on with the request. A panic leaves, too: then
// nobody is let in.
func (x *exchange) endSubrequest() {
	x.closeProxyState()
	x.out.release()
	p := x.parent
	p.limitReleases, p.requestLimit, p.connLimit = append(p.limitReleases, x.limitReleases...), x.requestLimit, x.connLimit
	if x.loggedStatus != 0 {
		p.loggedStatus = x.loggedStatus // the client is gone, or the connection is closed
	}
	x.recycleProxyState()
}

// challenge has the client be told what the subrequest wants of it. What a password wants is told beside.
func (x *exchange) copyChallenge() {
	const name = "Www-Authenticate"
	challenges := x.w.Header()[name]
	if challenges == nil {
		challenges = x.upstreamField(name) // a Pass may hide it
	}
	if to := x.parent.w.Header(); challenges != nil {
		to[name] = append(to[name][:len(to[name]):len(to[name])], challenges...)
	}
}

// client is the request that the client has sent, which a subrequest's is not.
func (x *exchange) clientRequest() *http.Request {
	if x.parent != nil {
		return x.parent.r
	}
	return x.r
}

// unsent is what subrequests are answered to: a header, and a body that nobody gets.
type discardWriter http.Header

// Header implements http.ResponseWriter.
func (u discardWriter) Header() http.Header { return http.Header(u) }

// WriteHeader implements http.ResponseWriter.
func (discardWriter) WriteHeader(int) {}

// Write implements http.ResponseWriter.
func (discardWriter) Write(p []byte) (int, error) { return len(p), nil }
