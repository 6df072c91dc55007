package guard

import (
	"net/http"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/htpasswd"
	"github.com/tarehq/tare/front/internal/netset"
	"github.com/tarehq/tare/front/internal/nginxstatus"
)

type access struct {
	rules    netset.Set // the first match applies
	deny     []bool
	password *password    // nil if none is required
	request  *authRequest // nil asks no application
}

// AccessModule decides on access: allow, deny, satisfy, and passwords and applications that decide.
func AccessModule() core.Module {
	return core.Module{
		Compile: compileAccess,
		Variables: func(core.Slot) map[string]core.KnownVariable {
			return map[string]core.KnownVariable{"remote_user": {Get: func(x *core.Exchange) string {
				user, _, _ := basicAuth(x.Request)
				return user
			}}}
		},
		NewState: func() any { return htpasswd.New() },
	}
}

func compileAccess(c *core.Compiler, s *conf.Settings, at core.Slot) (e core.Effect) {
	a := &access{password: compilePassword(c, s.Password, c.State.Modules[at].(*htpasswd.Files)),
		request: compileAuthRequest(c, s.AuthRequest)}
	for i, r := range s.Access {
		a.deny = append(a.deny, r.Deny)
		switch {
		case r.Unix:
			a.rules.AddUnix(i)
		case !r.Net.IsValid():
			a.rules.AddAll(i)
		default:
			a.rules.Add(r.Net, i)
		}
	}
	if a.deny != nil || a.password != nil || a.request != nil {
		e = core.Effect{Rules: a, Step: core.Step{Phase: core.AccessPhase, Name: "access", Run: a.check}}
	}
	return e
}

// granted is the result of a check that allows access. The others are a status that rejects it, and
// 0 for a check that does not apply.
const granted = -1

// check is the access phase. Subrequests skip it.
func (a *access) check(x *core.Exchange) core.Outcome {
	if x.Parent != nil {
		return core.Proceed
	}
	out := a.evaluate(x)
	if e := x.Plan.Options.Explain; e != nil && out == core.Proceed && !x.RegexTimedOut {
		e.Add(x, "access", x.Loc.Pos, "is granted")
	}
	return out
}

func (a *access) evaluate(x *core.Exchange) core.Outcome {
	rejected, satisfyAny := 0, x.Loc.Settings.SatisfyAny
	for _, check := range [...]func(*core.Exchange) int{a.checkRules, a.password.check, a.request.check} {
		switch status := check(x); {
		case status == granted && satisfyAny:
			delete(x.Response.Header(), "Www-Authenticate") // set by a check that rejected the request
			return core.Proceed
		case status <= 0:
		case !satisfyAny || status != http.StatusForbidden && status != http.StatusUnauthorized:
			return reject(x, status)
		case rejected != http.StatusUnauthorized:
			rejected = status
		}
	}
	if rejected == 0 {
		return core.Proceed
	}
	return reject(x, rejected)
}

func reject(x *core.Exchange, status int) core.Outcome {
	if status == nginxstatus.ClientGone {
		return x.EndWithoutResponse(status)
	}
	delay := x.Loc.Settings.AuthDelay
	if status == http.StatusUnauthorized && delay > 0 && x.Plan.Options.Explain == nil {
		x.Errorf(errorlog.LevelInfo, "delaying unauthorized request")
		if !x.Wait(delay) {
			return x.EndWithoutResponse(nginxstatus.ClientGone)
		}
	}
	return x.Fail(status)
}

func (a *access) checkRules(x *core.Exchange) int {
	i, ok := a.rules.Find(x.ClientAddress().Addr.Addr())
	switch {
	case !ok:
		return 0
	case !a.deny[i]:
		return granted
	}
	if !x.Loc.Settings.SatisfyAny {
		x.Errorf(errorlog.LevelError, "access forbidden by rule")
	}
	return http.StatusForbidden
}
