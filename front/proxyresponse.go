package front

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/roundtrip"
)

// answerRules say what becomes of an upstream's answer.
type responseRules struct {
	hidden        map[string]bool
	markedNames   markedNames // those that any of the rules is about
	inspectsBound bool        // a bound handler's answer has to be looked at
	// What an upstream may say of how its answer is treated.
	mayRedirect, mayLimitRate, mayBuffer bool

	locations     []replaceRule // of Location and Refresh
	cookieDomains []replaceRule
	cookiePaths   []replaceRule
}

// passAnswer compiles what becomes of answers.
func (c *compiler) proxyResponse(p *proxy, l *Location) (err error) {
	from, r := p.from, &p.response
	r.hidden = hiddenFields(from, p.target.bound != nil)
	for _, name := range from.Ignore {
		switch http.CanonicalHeaderKey(name) {
		case "X-Accel-Redirect", "X-Accel-Limit-Rate", "X-Accel-Buffering", "X-Accel-Expires", "X-Accel-Charset", "Expires", "Cache-Control", "Set-Cookie", "Vary":
		default:
			return fmt.Errorf("the field %q has no effect that could be ignored", name)
		}
	}
	ignores := func(field string) bool { return ignoresField(from.Ignore, field) }
	r.mayRedirect, r.mayLimitRate, r.mayBuffer = !ignores("X-Accel-Redirect"), !ignores("X-Accel-Limit-Rate"), !ignores("X-Accel-Buffering")
	if !from.NoRedirects {
		if r.locations, err = c.replaceRules(redirectRules(p, l)); err != nil {
			return fmt.Errorf("redirects: %w", err)
		}
	}
	if r.cookieDomains, err = c.replaceRules(cookieDomainRules(from.CookieDomains)); err != nil {
		return fmt.Errorf("cookies' domains: %w", err)
	}
	if r.cookiePaths, err = c.replaceRules(from.CookiePaths); err != nil {
		return fmt.Errorf("cookies' paths: %w", err)
	}
	r.markFields()
	return nil
}

// ignoresField reports whether a Pass's Ignore has a field.
func ignoresField(names []string, field string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, field) })
}

// mark finds the fields that the rules are about, but for those that concern a connection.
func (r *responseRules) markFields() {
	names := slices.Collect(maps.Keys(r.hidden))
	if r.mayRedirect {
		names = append(names, "X-Accel-Redirect")
	}
	if r.mayLimitRate {
		names = append(names, "X-Accel-Limit-Rate")
	}
	if r.locations != nil {
		names = append(names, "Location", "Refresh")
	}
	if r.cookieDomains != nil || r.cookiePaths != nil {
		names = append(names, "Set-Cookie")
	}
	r.inspectsBound = len(names) > 0
	for _, name := range names {
		r.markedNames.add(name)
	}
}

// markedNames is a set of names that may have some more: a look at it is much less than one into a map for each rule.
type markedNames [256]bool

func (m *markedNames) add(name string) { m[markIndex(name)] = true }

func (m *markedNames) has(name string) bool { return m[markIndex(name)] }

// markOf tells apart all names that rules are about and those that most answers have.
func markIndex(name string) byte {
	if name == "" {
		return 0
	}
	return name[0] + 7*byte(len(name))
}

// hiddenFields are those of answers that are not passed on. A handler in the same process is nobody that the client knows of, but
// says the time and so on for us.
func hiddenFields(from *Proxy, bound bool) map[string]bool {
	hidden := make(map[string]bool)
	usual := []string{"X-Accel-Expires", "X-Accel-Redirect", "X-Accel-Limit-Rate", "X-Accel-Buffering", "X-Accel-Charset"}
	if from.Protocol != FastCGI && !bound {
		usual = append(usual, "Date", "Server", "X-Pad")
	}
	for _, name := range slices.Concat(usual, from.Hide) {
		hidden[http.CanonicalHeaderKey(name)] = true
	}
	for _, name := range from.Show {
		delete(hidden, http.CanonicalHeaderKey(name))
	}
	return hidden
}

// answer sends an upstream's answer to the client, and closes it.
func (p *proxy) respond(x *exchange, resp *http.Response) outcome {
	defer closeQuietly(resp.Body)
	if resp.StatusCode == http.StatusSwitchingProtocols {
		x.useFilters()
		return p.tunnel(x, resp)
	}
	if out := p.redirectInternally(x, resp.StatusCode, resp.Header); out != proceed {
		return out
	}
	if x.r.Method == http.MethodHead || x.parent != nil || !bodyAllowed(resp.StatusCode) {
		closeQuietly(resp.Body)
		x.useFilters()
		p.response.copyHeader(x, x.w.Header(), resp.Header)
		x.w.WriteHeader(resp.StatusCode)
		return responded
	}
	return p.relay(x, resp)
}

// bodyAllowed reports whether an answer with a status has a body: RFC 9110, 6.4.1.
func bodyAllowed(status int) bool {
	return status >= http.StatusOK && status != http.StatusNoContent && status != http.StatusNotModified
}

// keptByRedirect are the fields of an answer that go with the one that it redirects to, as in nginx.
func fieldsKeptByRedirect() []string {
	return []string{"Content-Type", "Set-Cookie", "Content-Disposition", "Cache-Control", "Expires", "Accept-Ranges"}
}

// divert has something else answer, if the upstream wants that, or if there is a page for its error.
func (p *proxy) redirectInternally(x *exchange, status int, header http.Header) outcome {
	x.upstreamHeader = header
	if p.response.mayLimitRate && len(header["X-Accel-Limit-Rate"]) > 0 {
		x.limitRate = header["X-Accel-Limit-Rate"][0]
	}
	if p.from.Intercept && status >= http.StatusMultipleChoices && x.hasErrorPage(status) {
		if status == http.StatusUnauthorized && header["Www-Authenticate"] != nil {
			x.w.Header()["Www-Authenticate"] = header["Www-Authenticate"]
		}
		return x.fail(status)
	}
	if p.response.mayRedirect && len(header["X-Accel-Redirect"]) > 0 {
		return x.accelRedirect(header["X-Accel-Redirect"][0], header, x.clientBody.isAvailable())
	}
	return proceed
}

// accelRedirect goes where an upstream says, without the client's knowing. A path is got; a named location sees the request as it is, as
// in nginx, if its body can be had again.
func (x *exchange) accelRedirect(to string, header http.Header, isBodyAvailable bool) outcome {
	own := x.w.Header()
	for _, name := range fieldsKeptByRedirect() {
		if v := header[name]; v != nil {
			own[name] = v
		}
	}
	named := strings.HasPrefix(to, "@")
	if x.method != http.MethodHead && (!named || !isBodyAvailable) {
		x.method = http.MethodGet
	}
	if named {
		return x.redirectNamed(to)
	}
	path, args := splitArgs(to)
	path, err := url.PathUnescape(path)
	if err != nil || !strings.HasPrefix(path, "/") || hasDotDot(path) {
		x.errorf(levelError, "the upstream redirects to %q, which is no path", truncateLogged(to))
		return x.fail(http.StatusNotFound)
	}
	return x.redirect(path, args)
}

// climbs reports whether a path has a segment "..".
func hasDotDot(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == ".." {
			return true
		}
	}
	return false
}

// copy copies the header of an answer as far as the client gets it.
func (r *responseRules) copyHeader(x *exchange, to, from http.Header) {
	dropped := from["Connection"]
	for name, values := range from {
		if roundtrip.ConcernsConnection(name) || r.markedNames.has(name) && r.hidden[name] || dropped != nil && hasToken(dropped, name) && name != "Content-Length" {
			continue
		}
		if (name == "Set-Cookie" || name == "Cache-Control") && to[name] != nil { // of an answer that has led here by X-Accel-Redirect
			values = slices.Concat(to[name], values)
		}
		to[name] = values[:len(values):len(values)]
	}
	r.rewriteFields(x, to)
	if len(to["Content-Type"]) == 0 {
		to["Content-Type"] = nil // nobody is to guess it
	}
}
