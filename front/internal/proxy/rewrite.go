package proxy

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
)

type replaceRule struct {
	from    core.Text
	pattern *core.Pattern // if From is a regular expression, instead of from
	to      core.Text
}

// cookieDomainRules compiles rules for cookies' domains: they ignore a dot before the new domain.
func cookieDomainRules(c *core.Compiler, all []conf.Replace) []replaceRule {
	all = foldedRules(all)
	for i := range all {
		all[i].To = conf.Text(strings.TrimPrefix(string(all[i].To), "."))
	}
	return replaceRules(c, "proxy: cookie domains", all)
}

func foldedRules(all []conf.Replace) []conf.Replace {
	out := slices.Clone(all)
	for i, r := range out {
		if source, fold, ok := core.CutPattern(r.From); ok && !fold {
			out[i].From = "~*" + source
		}
	}
	return out
}

func replaceRules(c *core.Compiler, what string, all []conf.Replace) (out []replaceRule) {
	for _, f := range all {
		if f.Default {
			c.Failf("%s: the field Default is allowed in Redirects only", what)
		}
		r := replaceRule{to: c.Text(what, f.To)}
		if source, fold, ok := core.CutPattern(f.From); ok {
			r.pattern = c.Pattern(what, source, fold)
		} else {
			r.from = c.Text(what, conf.Text(f.From))
		}
		out = append(out, r)
	}
	return out
}

// rewriteFields replaces URLs, domains and paths of the upstream. The order is fixed, since the
// captures of one pattern are available to the next.
func (r *responseRules) rewriteFields(x *core.Exchange, header http.Header) {
	if r.locations != nil {
		if v := header["Location"]; v != nil {
			header["Location"] = r.rewriteLocation(x, v)
		}
		if v := header["Refresh"]; v != nil {
			header["Refresh"] = r.rewriteRefresh(x, v)
		}
	}
	if r.rewritesCookies() {
		if v := header["Set-Cookie"]; v != nil {
			header["Set-Cookie"] = r.rewriteCookies(x, v)
		}
	}
}

// redirectRules returns the Redirects, with the default in its place.
func redirectRules(p *proxy, l *conf.Location) []conf.Replace {
	if p.from.Redirects == nil {
		return defaultRedirectRules(p, l)
	}
	var all []conf.Replace
	for _, r := range p.from.Redirects {
		if r.Default {
			all = append(all, defaultRedirectRules(p, l)...)
		} else {
			all = append(all, r)
		}
	}
	return all
}

// defaultRedirectRules replaces the upstream's URL by the location's path.
func defaultRedirectRules(p *proxy, l *conf.Location) []conf.Replace {
	if !p.target.text.Constant() || p.from.Protocol == "fastcgi" || p.uri.text != nil && p.uri.isWhole ||
		p.uri.text != nil && (l.Match == "~" || l.Match == "~*" || l.Match == "@") {
		return nil
	}
	scheme, port := "http://", "80"
	if p.from.Protocol == "https" {
		scheme, port = "https://", "443"
	}
	var all []conf.Replace
	hosts := []string{p.target.name.host, p.target.text.Literal}
	if hosts[0] == hosts[1] {
		hosts = hosts[:1]
		if p.target.name.port == port {
			hosts = append(hosts, p.target.name.host+":"+port)
		}
	}
	for _, host := range hosts {
		if p.uri.text != nil {
			all = append(all, conf.Replace{From: scheme + host + p.uri.text.Literal, To: conf.Text(l.Path)})
		} else {
			all = append(all, conf.Replace{From: scheme + host + "/", To: "/"})
		}
	}
	return all
}

// replacePrefix replaces the prefix of a value, or all of a value that a regular expression
// matches.
func (r *replaceRule) replacePrefix(x *core.Exchange, value string) (string, bool) {
	if r.pattern != nil {
		return r.replaceMatch(x, value)
	}
	from := r.from.Eval(x)
	rest, ok := strings.CutPrefix(value, from)
	if !ok {
		return value, false
	}
	return r.to.Eval(x) + rest, true
}

// replaceMatch replaces all of a value that a regular expression matches. Its groups are available
// to To, and to later texts, as in nginx.
func (r *replaceRule) replaceMatch(x *core.Exchange, value string) (string, bool) {
	if !r.pattern.Match(x, value) {
		return value, false
	}
	return r.to.Eval(x), true
}

// replaceDomain replaces a value that is the same without regard to case and to a dot at the start.
// The dot stays.
func (r *replaceRule) replaceDomain(x *core.Exchange, value string) (string, bool) {
	if r.pattern != nil {
		return r.replaceMatch(x, value)
	}
	bare := strings.TrimPrefix(value, ".")
	if !strings.EqualFold(bare, strings.TrimPrefix(r.from.Eval(x), ".")) {
		return value, false
	}
	return value[:len(value)-len(bare)] + r.to.Eval(x), true
}

// replaceFirst applies the first of some rules that concerns a value.
func replaceFirst(x *core.Exchange, rules []replaceRule, value string,
	replace func(r *replaceRule, x *core.Exchange, value string) (string, bool)) (to string, ok bool) {
	for i := range rules {
		if to, ok = replace(&rules[i], x, value); ok {
			return to, true
		}
	}
	return value, false
}

// rewriteLocation rewrites Location. A path gets the front's scheme and host if the location
// requires that.
func (r *responseRules) rewriteLocation(x *core.Exchange, values []string) []string {
	if len(values) != 1 {
		return values
	}
	to, ok := replaceFirst(x, r.locations, values[0], (*replaceRule).replacePrefix)
	if !ok {
		return values
	}
	return []string{x.CleanFieldValue("Location", x.AbsoluteLocation(to))}
}

func (r *responseRules) rewriteRefresh(x *core.Exchange, values []string) []string {
	if len(values) != 1 {
		return values
	}
	const url = "url="
	at := len(url)
	for at <= len(values[0]) && !strings.EqualFold(values[0][at-len(url):at], url) {
		at++
	}
	if at > len(values[0]) {
		return values
	}
	to, ok := replaceFirst(x, r.locations, values[0][at:], (*replaceRule).replacePrefix)
	if !ok {
		return values
	}
	return []string{x.CleanFieldValue("Refresh", values[0][:at]+x.EscapeControls(to))}
}

func (r *responseRules) rewritesCookies() bool {
	return r.cookieDomains != nil || r.cookiePaths != nil || r.cookieFlags != nil
}

// rewriteCookies rewrites the domains, paths and flags of cookies.
func (r *responseRules) rewriteCookies(x *core.Exchange, values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = x.CleanFieldValue("Set-Cookie", r.rewriteCookie(x, v))
	}
	return out
}

// rewriteCookie rewrites a cookie. As in nginx one that changes is written without needless spaces.
func (r *responseRules) rewriteCookie(x *core.Exchange, cookie string) string {
	parts, changed := cookieParts(cookie), false
	for i := 1; i < len(parts); i++ {
		name, value, ok := strings.Cut(parts[i], "=")
		switch {
		case ok && strings.EqualFold(name, "domain"):
			value, ok = replaceFirst(x, r.cookieDomains, value, (*replaceRule).replaceDomain)
		case ok && strings.EqualFold(name, "path"):
			value, ok = replaceFirst(x, r.cookiePaths, value, (*replaceRule).replacePrefix)
		default:
			continue
		}
		if ok {
			parts[i], changed = name+"="+value, true
		}
	}
	if changed {
		cookie = strings.Join(parts, "; ")
	}
	return r.flagCookie(x, cookie)
}

// cookieParts returns a cookie's name and value, and its attributes, without spaces around them.
func cookieParts(cookie string) []string {
	parts := strings.Split(cookie, ";")
	for i, part := range parts {
		name, value, isPair := strings.Cut(part, "=")
		parts[i] = strings.Trim(name, " ")
		if isPair {
			parts[i] += "=" + strings.Trim(value, " ")
		}
	}
	return parts
}
