package proxy

import (
	"fmt"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
)

// cookieFlags are the flags that a rule of CookieFlags sets and removes.
type cookieFlags struct {
	secure, noSecure     bool
	httpOnly, noHTTPOnly bool
	sameSite             string // "" leaves it
	noSameSite           bool
}

// cookieFlagRules compiles CookieFlags. Patterns ignore case, as in nginx.
func cookieFlagRules(c *core.Compiler, all []conf.Replace) ([]replaceRule, error) {
	compiled, err := replaceRules(c, "proxy cookie flags", foldedRules(all))
	if err != nil {
		return nil, err
	}
	for i := range compiled {
		if to := &compiled[i].to; to.Constant() {
			var f cookieFlags
			if unknown := f.parse(to.Literal); unknown != "" {
				return nil, fmt.Errorf("unknown flag %q", unknown)
			}
		}
	}
	return compiled, nil
}

// parse adds flags, separated by spaces. It returns the first unknown one, or "".
func (f *cookieFlags) parse(text string) (unknown string) {
	for word := range strings.FieldsSeq(text) {
		switch strings.ToLower(word) {
		case "secure":
			f.secure = true
		case "nosecure":
			f.noSecure = true
		case "httponly":
			f.httpOnly = true
		case "nohttponly":
			f.noHTTPOnly = true
		case "samesite=strict":
			f.sameSite = "Strict"
		case "samesite=lax":
			f.sameSite = "Lax"
		case "samesite=none":
			f.sameSite = "None"
		case "nosamesite":
			f.noSameSite = true
		default:
			if unknown == "" {
				unknown = word
			}
		}
	}
	return unknown
}

// flagCookie applies the first rule for a cookie's name to the attributes of a Set-Cookie field.
func (r *responseRules) flagCookie(x *core.Exchange, cookie string) string {
	pair, _, _ := strings.Cut(cookie, ";")
	name, _, isPair := strings.Cut(pair, "=")
	if name = strings.Trim(name, " "); !isPair { // as in nginx it has no name
		return cookie
	}
	for i := range r.cookieFlags {
		if rule := &r.cookieFlags[i]; rule.pattern != nil && rule.pattern.Match(x, name) ||
			rule.pattern == nil && strings.EqualFold(rule.from.Eval(x), name) {
			var f cookieFlags
			if unknown := f.parse(rule.to.Eval(x)); unknown != "" {
				x.Errorf(errorlog.LevelError, "unknown flag %q for cookies", errorlog.Truncate(unknown))
			}
			return f.apply(cookie)
		}
	}
	return cookie
}

// apply returns a Set-Cookie field with the flags. As in nginx, flags that it already has stay in
// place.
func (f *cookieFlags) apply(cookie string) string {
	if *f == (cookieFlags{}) {
		return cookie
	}
	todo := *f
	var kept []string
	for i, part := range cookieParts(cookie) {
		name, _, _ := strings.Cut(part, "=")
		remove := false
		switch name = strings.ToLower(name); {
		case i == 0:
		case name == "secure":
			remove, todo.secure = f.noSecure && !f.secure, false
		case name == "httponly":
			remove, todo.httpOnly = f.noHTTPOnly && !f.httpOnly, false
		case name == "samesite" && f.sameSite != "":
			part, todo.sameSite = part[:len("samesite")]+"="+f.sameSite, ""
		case name == "samesite":
			remove = f.noSameSite
		}
		if !remove {
			kept = append(kept, part)
		}
	}
	if todo.secure {
		kept = append(kept, "Secure")
	}
	if todo.httpOnly {
		kept = append(kept, "HttpOnly")
	}
	if todo.sameSite != "" {
		kept = append(kept, "SameSite="+todo.sameSite)
	}
	return strings.Join(kept, "; ")
}
