package front

import (
	"net/http"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/htpasswd"
)

// access decides on access to a location.
type access struct {
	rules      networkSet // the first match applies
	deny       []bool
	password   *password     // nil if none is required
	request    *authRequest  // nil asks no application
	satisfyAny bool          // one of rules, password and request is enough
	delay      time.Duration // of a 401
}

// accessModule decides on access: allow, deny, satisfy, and passwords and applications that decide.
func accessModule() module {
	return module{
		compile: func(c *compiler, s *conf.Settings, at slot) (effect, error) {
			a, err := c.access(s, c.state.modules[at].(*htpasswd.Files))
			if err != nil || a.deny == nil && a.password == nil && a.request == nil {
				return effect{}, err
			}
			return effect{rules: &a, step: step{accessPhase, "access", a.check}}, nil
		},
		variables: func(slot) map[string]knownVariable { return map[string]knownVariable{"remote_user": {get: remoteUser}} },
		newState:  func() any { return htpasswd.New() },
	}
}

// access compiles the access settings of a location.
func (c *compiler) access(s *conf.Settings, passwords *htpasswd.Files) (a access, err error) {
	a.satisfyAny, a.delay = s.SatisfyAny, s.AuthDelay
	for i, r := range s.Access {
		a.deny = append(a.deny, r.Deny)
		switch {
		case r.Unix:
			a.rules.addUnix(i)
		case !r.Net.IsValid():
			a.rules.addAll(i)
		default:
			a.rules.add(r.Net, i)
		}
	}
	if a.password, err = c.password(s.Password, passwords); err == nil {
		a.request, err = c.authRequest(s.AuthRequest)
	}
	return a, err
}

// granted is the result of a check that allows access. The others are a status that rejects it, and
// 0 for a check that does not apply.
const granted = -1

// check is the access phase. Subrequests skip it.
func (a *access) check(x *exchange) outcome {
	if x.parent != nil {
		return proceed
	}
	out := a.evaluate(x)
	if e := x.plan.options.explain; e != nil && out == proceed && !x.regexTimedOut {
		e.add(x, "access", x.loc.pos, "is granted")
	}
	return out
}

func (a *access) evaluate(x *exchange) outcome {
	rejected := 0
	for _, check := range [...]func(*access, *exchange) int{(*access).checkRules, (*access).checkPassword,
		(*access).checkRequest} {
		switch status := check(a, x); {
		case status == granted && a.satisfyAny:
			delete(x.w.Header(), "Www-Authenticate") // of a check that rejected the request
			return proceed
		case status <= 0:
		case !a.satisfyAny || status != http.StatusForbidden && status != http.StatusUnauthorized:
			return a.reject(x, status)
		case rejected != http.StatusUnauthorized:
			rejected = status
		}
	}
	if rejected == 0 {
		return proceed
	}
	return a.reject(x, rejected)
}

func (a *access) reject(x *exchange, status int) outcome {
	if status == statusClientGone {
		return x.endWithoutResponse(status)
	}
	if status == http.StatusUnauthorized && a.delay > 0 && x.plan.options.explain == nil {
		x.errorf(levelInfo, "delaying unauthorized request")
		if !x.wait(a.delay) {
			return x.endWithoutResponse(statusClientGone)
		}
	}
	return x.fail(status)
}

func (a *access) checkRules(x *exchange) int {
	i, ok := a.rules.find(x.clientAddress().addr.Addr())
	switch {
	case !ok:
		return 0
	case !a.deny[i]:
		return granted
	}
	if !a.satisfyAny {
		x.errorf(levelError, "access forbidden by rule")
	}
	return http.StatusForbidden
}

func (a *access) checkPassword(x *exchange) int {
	if a.password == nil {
		return 0
	}
	return a.password.check(x)
}

func (a *access) checkRequest(x *exchange) int {
	if a.request == nil {
		return 0
	}
	return a.request.check(x)
}
