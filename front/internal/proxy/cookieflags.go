package proxy

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
)

// cookieFlags are the attributes that a rule of CookieFlags sets, or removes if they are "", by their
// names in lower case: secure, httponly and samesite.
type cookieFlags map[string]string

// cookieFlagRules compiles CookieFlags. Patterns ignore case, as in nginx.
func cookieFlagRules(c *core.Compiler, all []conf.Replace) ([]replaceRule, error) {
	compiled, err := replaceRules(c, "proxy cookie flags", foldedRules(all))
	if err != nil {
		return nil, err
	}
	for i := range compiled {
		if to := &compiled[i].to; to.Constant() {
			if _, unknown := parseCookieFlags(to.Literal); unknown != "" {
				return nil, fmt.Errorf("unknown flag %q", unknown)
			}
		}
	}
	return compiled, nil
}

// parseCookieFlags parses flags, separated by spaces. An attribute that is both set and removed is
// set. unknown is the first unknown flag, or "".
func parseCookieFlags(text string) (f cookieFlags, unknown string) {
	f = make(cookieFlags)
	for word := range strings.FieldsSeq(text) {
		switch flag := strings.ToLower(word); flag {
		case "secure":
			f[flag] = "Secure"
		case "httponly":
			f[flag] = "HttpOnly"
		case "samesite=strict", "samesite=lax", "samesite=none":
			value := flag[len("samesite="):]
			f["samesite"] = "SameSite=" + strings.ToUpper(value[:1]) + value[1:]
		case "nosecure", "nohttponly", "nosamesite":
			if name := flag[len("no"):]; f[name] == "" {
				f[name] = ""
			}
		default:
			unknown = cmp.Or(unknown, word)
		}
	}
	return f, unknown
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
			f, unknown := parseCookieFlags(rule.to.Eval(x))
			if unknown != "" {
				x.Errorf(errorlog.LevelError, "unknown flag %q for cookies", errorlog.Truncate(unknown))
			}
			return f.apply(cookie)
		}
	}
	return cookie
}

// apply returns a Set-Cookie field with the flags. As in nginx, flags that it already has stay in
// place.
func (f cookieFlags) apply(cookie string) string {
	if len(f) == 0 {
		return cookie
	}
	todo, kept := maps.Clone(f), []string(nil)
	for i, part := range cookieParts(cookie) {
		name, _, _ := strings.Cut(part, "=")
		attribute, isFlagged := f[strings.ToLower(name)]
		if i > 0 && isFlagged {
			todo[strings.ToLower(name)] = ""
			if attribute == "" {
				continue
			}
			if _, value, isPair := strings.Cut(attribute, "="); isPair {
				part = name + "=" + value
			}
		}
		kept = append(kept, part)
	}
	for _, name := range []string{"secure", "httponly", "samesite"} {
		if todo[name] != "" {
			kept = append(kept, todo[name])
		}
	}
	return strings.Join(kept, "; ")
}
