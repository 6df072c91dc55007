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
