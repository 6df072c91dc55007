package proxy

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/message"
	"github.com/tarehq/tare/internal/wire/http1"
)

type responseRules struct {
	fates       map[string]fieldFate // of fields that do not just pass
	markedNames markedNames          // those of fates
	// Which of the X-Accel fields have an effect.
	mayRedirect, mayLimitRate, mayBuffer bool

	locations     []replaceRule // for Location and Refresh
	cookieDomains []replaceRule
	cookiePaths   []replaceRule
	cookieFlags   []replaceRule // to holds flags
}

func compileResponse(c *core.Compiler, p *proxy, l *conf.Location) {
	compile := func() *responseRules {
		p.response = new(responseRules)
		compileResponseRules(c, p, l)
		return p.response
	}
	if key, isShared := p.responseKey(); isShared {
		p.response = core.Shared(c, key, compile)
	} else {
		compile()
	}
}

func compileResponseRules(c *core.Compiler, p *proxy, l *conf.Location) {
	from, r := p.from, p.response
	for _, name := range from.Ignore {
		if !cache.IsIgnorable(name) && !ignoresField(accelFields(), name) {
			c.Failf("proxy: field %q cannot be ignored", name)
		}
	}
	ignores := func(field string) bool { return ignoresField(from.Ignore, field) }
	r.mayRedirect, r.mayLimitRate, r.mayBuffer = !ignores("X-Accel-Redirect"), !ignores("X-Accel-Limit-Rate"),
		!ignores("X-Accel-Buffering")
	if !from.NoRedirects {
		r.locations = replaceRules(c, "proxy: redirects", redirectRules(p, l))
	}
	r.cookieDomains = cookieDomainRules(c, from.CookieDomains)
	r.cookiePaths = replaceRules(c, "proxy: cookie paths", from.CookiePaths)
	r.cookieFlags = cookieFlagRules(c, from.CookieFlags)
	r.setFates(from, p.target.bound != nil)
}

// ignoresField reports whether names contains a field.
func ignoresField(names []string, field string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, field) })
}

// accelFields returns the fields by which an upstream directs a front.
func accelFields() []string {
	return []string{"X-Accel-Expires", "X-Accel-Redirect", "X-Accel-Limit-Rate", "X-Accel-Buffering", "X-Accel-Charset"}
}

// fieldFate is what becomes of a field of an upstream's response. A field without one passes.
type fieldFate uint8

const (
	fieldIsDropped   fieldFate = 1 << iota
	fieldIsRewritten           // perhaps, by rewriteFields
	fieldDirects               // the front reads it
)

// setFates sets the fates of fields. A bound handler speaks for this server, so that its Date and
// Server are not hidden.
func (r *responseRules) setFates(from *conf.Proxy, bound bool) {
	r.fates = make(map[string]fieldFate)
	hidden := accelFields()
	if from.Protocol == "fastcgi" {
		hidden = append(hidden, "Status")
	} else if !bound {
		hidden = append(hidden, "Date", "Server", "X-Pad")
	}
	for _, name := range slices.Concat(hidden, from.Hide) {
		r.fates[http.CanonicalHeaderKey(name)] = fieldIsDropped
	}
	for _, name := range from.Show {
		delete(r.fates, http.CanonicalHeaderKey(name))
	}
	set := func(is bool, fate fieldFate, names ...string) {
		for _, name := range names {
			if is {
				r.fates[name] |= fate
			}
		}
	}
	set(r.mayRedirect, fieldDirects, "X-Accel-Redirect")
	set(r.mayLimitRate, fieldDirects, "X-Accel-Limit-Rate")
	set(r.mayBuffer, fieldDirects, "X-Accel-Buffering")
	set(r.locations != nil, fieldIsRewritten, "Location", "Refresh")
	set(r.rewritesCookies(), fieldIsRewritten, "Set-Cookie")
	for name := range r.fates {
		r.markedNames[markIndex(name)] = true
	}
}

func (r *responseRules) fate(name string) fieldFate {
	if http1.ConcernsConnection(name) {
		return fieldIsDropped
	}
	return r.fateOfOwn(name)
}

// fateOfOwn is fate for a bound handler, whose fields about the connection concern the client's.
func (r *responseRules) fateOfOwn(name string) fieldFate {
	if !r.markedNames[markIndex(name)] {
		return 0
	}
	return r.fates[http.CanonicalHeaderKey(name)]
}

// copyFields copies the fields that the client receives, apart from rewriting them.
func (r *responseRules) copyFields(to, from http.Header) {
	dropped := from["Connection"]
	for name, values := range from {
		isNamed := dropped != nil && http1.HasToken(dropped, name) && name != "Content-Length"
		if !isNamed && r.fate(name)&fieldIsDropped == 0 {
			to[name] = slices.Clip(values)
		}
	}
}

// markedNames is a superset of a set of names. Looking at it costs much less than a map lookup for
// each rule.
type markedNames [256]bool

// markIndex is the index of a name, whatever its case. It differs between all names that rules
// concern and those that most responses have.
func markIndex[T string | []byte](name T) byte {
	if len(name) == 0 {
		return 0
	}
	return name[0] | 0x20 + 7*byte(len(name))
}

// respond sends an upstream's response to the client, and closes it.
func (p *proxy) respond(x *core.Exchange, resp *http.Response) core.Outcome {
	defer func() { _ = resp.Body.Close() }() // unless a stream has taken it
	if resp.Header == nil {
		memory := stateOf(x).clientMemory
		if head := memory.Head(); !p.passHead(x, resp.StatusCode, message.Head(*head), false) {
			resp.Header = memory.Header()
		}
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return p.tunnel(x, resp)
	}
	if x.Response.Raw.Text == nil {
		if out := p.redirectInternally(x, resp.StatusCode, resp.Header); out != core.Proceed {
			return out
		}
	}
	if x.Request.Method == http.MethodHead || x.DiscardsBody() || !message.BodyAllowed(resp.StatusCode) ||
		!message.BodyAllowed(x.PageStatus(resp.StatusCode)) {
		_ = resp.Body.Close()
		p.sendFields(x, resp)
		return core.Responded
	}
	switch {
	case !p.from.ForceRanges:
	case !x.IsConditional(): // as in nginx
		delete(resp.Header, "Accept-Ranges")
	default:
		if out := p.respondRange(x, resp); out != core.Proceed {
			return out
		}
	}
	return p.relay(x, resp)
}

// redirectInternally applies X-Accel-Redirect and error pages: either replaces the response.
func (p *proxy) redirectInternally(x *core.Exchange, status int, header http.Header) core.Outcome {
	stateOf(x).upstreamHeader = header
	if p.response.mayLimitRate && len(header["X-Accel-Limit-Rate"]) > 0 {
		x.LimitRate = header["X-Accel-Limit-Rate"][0]
	}
	if x.Intercepts(status) {
		if status == http.StatusUnauthorized && header["Www-Authenticate"] != nil {
			x.Response.Header()["Www-Authenticate"] = header["Www-Authenticate"]
		}
		return x.Fail(status)
	}
	if p.response.mayRedirect && len(header["X-Accel-Redirect"]) > 0 {
		return p.response.accelRedirect(x, header["X-Accel-Redirect"][0], header, x.Received.IsAvailable())
	}
	return core.Proceed
}

// accelRedirect redirects internally, as X-Accel-Redirect requests. The method becomes GET, except
// that a named location keeps the request if its body is still available, as in nginx.
func (r *responseRules) accelRedirect(x *core.Exchange, to string, header http.Header,
	isBodyAvailable bool) core.Outcome {
	own := x.Response.Header()
	earlier := takeEarlier(own)
	for _, name := range []string{"Content-Type", "Set-Cookie", "Content-Disposition", "Cache-Control", "Expires",
		"Accept-Ranges"} { // as in nginx
		if v := header[name]; v != nil {
			own[name] = v
		}
	}
	if cookies := own["Set-Cookie"]; cookies != nil && r.rewritesCookies() {
		own["Set-Cookie"] = r.rewriteCookies(x, cookies)
	}
	earlier.precede(own)
	named := strings.HasPrefix(to, "@")
	if x.Method != http.MethodHead && (!named || !isBodyAvailable) {
		x.Method = http.MethodGet
	}
	if named {
		return x.RedirectNamed(to)
	}
	path, args, _ := strings.Cut(to, "?")
	path, err := url.PathUnescape(path)
	if err != nil || !strings.HasPrefix(path, "/") || slices.Contains(strings.Split(path, "/"), "..") {
		x.Errorf(errorlog.LevelError, "invalid path in X-Accel-Redirect: %q", errorlog.Truncate(to))
		if path != "" && path[0] != '/' { // as in nginx the redirect is followed, but no location matches
			x.LeaveLocation()
		}
		return x.Fail(http.StatusNotFound)
	}
	return x.Redirect(path, args)
}

// earlierFields are fields of a response whose X-Accel-Redirect has led to another response. They
// precede the other's fields of the same names, and its location does not rewrite them.
type earlierFields struct{ cookies, caching []string }

// takeEarlier removes the earlierFields from the header, which the next response will add to.
func takeEarlier(header http.Header) earlierFields {
	f := earlierFields{header["Set-Cookie"], header["Cache-Control"]}
	if f.cookies != nil {
		delete(header, "Set-Cookie")
	}
	if f.caching != nil {
		delete(header, "Cache-Control")
	}
	return f
}

// precede puts f before the same fields of the next response.
func (f earlierFields) precede(header http.Header) {
	if f.cookies != nil {
		header["Set-Cookie"] = slices.Concat(f.cookies, header["Set-Cookie"])
	}
	if f.caching != nil {
		header["Cache-Control"] = slices.Concat(f.caching, header["Cache-Control"])
	}
}

// copyHeader copies the header of a response, as far as the client receives it.
func (r *responseRules) copyHeader(x *core.Exchange, status int, to, from http.Header) {
	earlier := takeEarlier(to)
	if upgrade := from["Upgrade"]; status == http.StatusUpgradeRequired && upgrade != nil &&
		x.Request.ProtoMajor == 1 &&
		r.fateOfOwn("Upgrade") == 0 {
		// what the client may switch to, also through this server (RFC 9110, 15.5.22)
		to["Upgrade"], to["Connection"] = upgrade, append(to["Connection"], "Upgrade")
	}
	r.copyFields(to, from)
	r.rewriteFields(x, to)
	earlier.precede(to)
	if len(to["Content-Type"]) == 0 {
		to["Content-Type"] = nil // keeps the server from detecting it
	}
}

// responseKey identifies the responseRules of a Proxy without URI and without rules of its own for
// redirects and cookies. Sharing them halves the 2.2 KB that a location with a proxy_pass needs.
type responseKey string

// responseKey returns the key of the rules for responses, and whether they have one.
func (p *proxy) responseKey() (key responseKey, ok bool) {
	from := p.from
	if from.URI != nil || from.Redirects != nil || from.CookieDomains != nil || from.CookiePaths != nil ||
		from.CookieFlags != nil {
		return "", false
	}
	return responseKey(fmt.Sprintf("%q %q %q %q %q %t", from.Hide, from.Show, from.Ignore, from.Protocol, from.To,
		from.NoRedirects)), true
}
