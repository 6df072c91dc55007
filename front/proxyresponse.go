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
type answerRules struct {
	hidden map[string]bool
	marked markedNames // those that any of the rules is about
	sees   bool        // a bound handler's answer has to be looked at
	// What an upstream may say of how its answer is treated.
	mayRedirect, mayLimitRate, maySayBuffering bool

	locations     []replacing // of Location and Refresh
	cookieDomains []replacing
	cookiePaths   []replacing
}

// passAnswer compiles what becomes of answers.
func (c *compiler) passAnswer(p *pass, l *Location) (err error) {
	from, r := p.from, &p.answers
	r.hidden = hiddenFields(from, p.to.bound != nil)
	for _, name := range from.Ignore {
		switch http.CanonicalHeaderKey(name) {
		case "X-Accel-Redirect", "X-Accel-Limit-Rate", "X-Accel-Buffering", "X-Accel-Expires", "X-Accel-Charset", "Expires", "Cache-Control", "Set-Cookie", "Vary":
		default:
			return fmt.Errorf("the field %q has no effect that could be ignored", name)
		}
	}
	ignores := func(field string) bool { return ignoresField(from.Ignore, field) }
	r.mayRedirect, r.mayLimitRate, r.maySayBuffering = !ignores("X-Accel-Redirect"), !ignores("X-Accel-Limit-Rate"), !ignores("X-Accel-Buffering")
	if !from.NoRedirects {
		if r.locations, err = c.replacing(replacedRedirects(p, l)); err != nil {
			return fmt.Errorf("redirects: %w", err)
		}
	}
	if r.cookieDomains, err = c.replacing(domains(from.CookieDomains)); err != nil {
		return fmt.Errorf("cookies' domains: %w", err)
	}
	if r.cookiePaths, err = c.replacing(from.CookiePaths); err != nil {
		return fmt.Errorf("cookies' paths: %w", err)
	}
	r.mark()
	return nil
}

// ignoresField reports whether a Pass's Ignore has a field.
func ignoresField(names []string, field string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, field) })
}

// mark finds the fields that the rules are about, but for those that concern a connection.
func (r *answerRules) mark() {
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
	r.sees = len(names) > 0
	for _, name := range names {
		r.marked.add(name)
	}
}

// markedNames is a set of names that may have some more: a look at it is much less than one into a map for each rule.
type markedNames [256]bool

func (m *markedNames) add(name string) { m[markOf(name)] = true }

func (m *markedNames) has(name string) bool { return m[markOf(name)] }

// markOf tells apart all names that rules are about and those that most answers have.
func markOf(name string) byte {
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
func (p *pass) answer(x *exchange, resp *http.Response) outcome {
	defer closing(resp.Body)
	if resp.StatusCode == http.StatusSwitchingProtocols {
		x.filter()
		return p.tunnel(x, resp)
	}
	if out := p.divert(x, resp.StatusCode, resp.Header); out != proceed {
		return out
	}
	if x.r.Method == http.MethodHead || x.parent != nil || !bodyAllowed(resp.StatusCode) {
		closing(resp.Body)
		x.filter()
		p.answers.copy(x, x.w.Header(), resp.Header)
		x.w.WriteHeader(resp.StatusCode)
		return answered
	}
	return p.relay(x, resp)
}

// bodyAllowed reports whether an answer with a status has a body: RFC 9110, 6.4.1.
func bodyAllowed(status int) bool {
	return status >= http.StatusOK && status != http.StatusNoContent && status != http.StatusNotModified
}

// keptByRedirect are the fields of an answer that go with the one that it redirects to, as in nginx.
func keptByRedirect() []string {
	return []string{"Content-Type", "Set-Cookie", "Content-Disposition", "Cache-Control", "Expires", "Accept-Ranges"}
}

// divert has something else answer, if the upstream wants that, or if there is a page for its error.
func (p *pass) divert(x *exchange, status int, header http.Header) outcome {
	x.upstreamHeader = header
	if p.answers.mayLimitRate && len(header["X-Accel-Limit-Rate"]) > 0 {
		x.limitOf = header["X-Accel-Limit-Rate"][0]
	}
	if p.from.Intercept && status >= http.StatusMultipleChoices && x.hasPage(status) {
		if status == http.StatusUnauthorized && header["Www-Authenticate"] != nil {
			x.w.Header()["Www-Authenticate"] = header["Www-Authenticate"]
		}
		return x.fail(status)
	}
	if p.answers.mayRedirect && len(header["X-Accel-Redirect"]) > 0 {
		return x.accelRedirect(header["X-Accel-Redirect"][0], header, x.sent.again())
	}
	return proceed
}

// accelRedirect goes where an upstream says, without the client's knowing. A path is got; a named location sees the request as it is, as
// in nginx, if its body can be had again.
func (x *exchange) accelRedirect(to string, header http.Header, again bool) outcome {
	own := x.w.Header()
	for _, name := range keptByRedirect() {
		if v := header[name]; v != nil {
			own[name] = v
		}
	}
	named := strings.HasPrefix(to, "@")
	if x.method != http.MethodHead && (!named || !again) {
		x.method = http.MethodGet
	}
	if named {
		return x.redirectNamed(to)
	}
	path, args := splitArgs(to)
	path, err := url.PathUnescape(path)
	if err != nil || !strings.HasPrefix(path, "/") || climbs(path) {
		x.errorf(levelError, "the upstream redirects to %q, which is no path", bounded(to))
		return x.fail(http.StatusNotFound)
	}
	return x.redirect(path, args)
}

// climbs reports whether a path has a segment "..".
func climbs(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == ".." {
			return true
		}
	}
	return false
}

// copy copies the header of an answer as far as the client gets it.
func (r *answerRules) copy(x *exchange, to, from http.Header) {
	dropped := from["Connection"]
	for name, values := range from {
		if roundtrip.ConcernsConnection(name) || r.marked.has(name) && r.hidden[name] || dropped != nil && hasToken(dropped, name) && name != "Content-Length" {
			continue
		}
		if (name == "Set-Cookie" || name == "Cache-Control") && to[name] != nil { // of an answer that has led here by X-Accel-Redirect
			values = slices.Concat(to[name], values)
		}
		to[name] = values[:len(values):len(values)]
	}
	r.rewrite(x, to)
	if len(to["Content-Type"]) == 0 {
		to["Content-Type"] = nil // nobody is to guess it
	}
}
