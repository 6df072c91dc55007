package proxy

import (
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
)

// cookieFlags are the attributes that a rule of CookieFlags sets, and the names of those that it
// removes.
type cookieFlags struct{ set, removed []string }

// cookieFlagRules compiles CookieFlags. Patterns ignore case, as in nginx.
func cookieFlagRules(c *core.Compiler, all []conf.Replace) []replaceRule {
	compiled := replaceRules(c, "proxy: cookie flags", foldedRules(all))
	for i := range compiled {
		if to := &compiled[i].to; to.Constant() {
			if _, unknown := parseCookieFlags(to.Literal); unknown != "" {
				c.Failf("proxy: cookie flags: unknown flag %q", unknown)
			}
		}
	}
	return compiled
}

// parseCookieFlags parses flags, separated by spaces. unknown is the first unknown flag, or "".
func parseCookieFlags(text string) (f cookieFlags, unknown string) {
	words := strings.Fields(text)
	take := func(flag string) (found bool) {
		n := len(words)
		words = slices.DeleteFunc(words, func(word string) bool { return strings.EqualFold(word, flag) })
		return len(words) < n
	}
	for _, attribute := range []string{"Secure", "HttpOnly", "SameSite=Strict", "SameSite=Lax", "SameSite=None"} {
		if take(attribute) {
			f.set = append(f.set, attribute)
		}
		if name := attributeName(attribute); take("no" + name) {
			f.removed = append(f.removed, name)
		}
	}
	if len(words) > 0 {
		unknown = words[0]
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

// apply returns a Set-Cookie field with the flags. As in nginx each flag that sets an attribute
// changes one that the cookie has, in their order, and the first of the remaining flags adds one.
// A flag that removes an attribute applies to those that no other flag has changed.
func (f cookieFlags) apply(cookie string) string {
	if f.set == nil && f.removed == nil {
		return cookie
	}
	rest, kept := slices.Clone(f.set), []string(nil)
	take := func(name string) (attribute string) {
		i := slices.IndexFunc(rest, func(a string) bool { return strings.EqualFold(attributeName(a), name) })
		if i >= 0 {
			attribute = rest[i]
			rest = slices.Delete(rest, i, i+1)
		}
		return attribute
	}
	for i, part := range cookieParts(cookie) {
		if name := attributeName(part); i > 0 {
			attribute := take(name)
			isNamed := func(removed string) bool { return strings.EqualFold(removed, name) }
			switch {
			case attribute == "" && slices.ContainsFunc(f.removed, isNamed):
				continue
			case strings.Contains(attribute, "=") && !strings.EqualFold(attribute, part):
				part = attribute
			}
		}
		kept = append(kept, part)
	}
	for _, name := range []string{"Secure", "HttpOnly", "SameSite"} {
		if attribute := take(name); attribute != "" {
			kept = append(kept, attribute)
		}
	}
	return strings.Join(kept, "; ")
}

func attributeName(attribute string) string {
	name, _, _ := strings.Cut(attribute, "=")
	return name
}
