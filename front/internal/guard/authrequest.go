package guard

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/nginxstatus"
)

type authRequest struct {
	uri string
	set []core.Setting
}

// compileAuthRequest compiles an AuthRequest; nil makes no subrequest.
func compileAuthRequest(c *core.Compiler, from *conf.AuthRequest) *authRequest {
	if from == nil || from.URI == "" {
		return nil
	}
	if !strings.HasPrefix(from.URI, "/") {
		c.Failf("auth_request: invalid path %q: want a leading slash", from.URI)
	}
	q := &authRequest{uri: from.URI}
	for _, s := range from.Set {
		q.set = append(q.set, c.Setting("auth_request_set", s))
	}
	return q
}

// check makes the subrequest. It returns granted, or the status that rejects the request, or 0 if
// the location makes none.
func (q *authRequest) check(x *core.Exchange) int {
	if q == nil {
		return 0
	}
	sub := x.Subrequest(q.uri)
	defer sub.EndSubrequest()
	sub.RunSubrequest()
	for i := range q.set {
		s := &q.set[i]
		s.Assign(x, s.Value.Eval(sub))
	}
	switch status := sub.ResponseStatus(); {
	case sub.LoggedStatus != 0:
		return nginxstatus.ClientGone
	case status == http.StatusUnauthorized:
		copyChallenge(sub)
		return status
	case status == http.StatusForbidden:
		return status
	case status >= http.StatusOK && status < http.StatusMultipleChoices:
		return granted
	default:
		x.Errorf(errorlog.LevelError, "auth request unexpected status: %d", status)
		return http.StatusInternalServerError
	}
}

// copyChallenge copies WWW-Authenticate of the subrequest to the client's response, besides that
// for a password.
func copyChallenge(x *core.Exchange) {
	const name = "Www-Authenticate"
	challenges := x.Response.Header()[name]
	if challenges == nil {
		challenges = x.UpstreamField(name) // a Proxy may hide it
	}
	if to := x.Parent.Response.Header(); challenges != nil {
		to[name] = append(slices.Clip(to[name]), challenges...)
	}
}
