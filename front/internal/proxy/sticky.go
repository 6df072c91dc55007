package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/upstream"
)

// forever is the Max-Age of a cookie with expires=max.
const forever = 10 * 365 * 24 * time.Hour

type sticky struct {
	cookie                 *conf.StickyCookie // nil without a cookie
	domain, path, sameSite core.Text          // of the cookie
	routes                 []core.Text
}

func compileSticky(c *core.Compiler, what string, from *conf.Sticky) *sticky {
	if from == nil {
		return nil
	}
	s := &sticky{cookie: from.Cookie}
	s.routes = c.Texts("sticky", from.Routes)
	if k := from.Cookie; k != nil {
		if !httpguts.ValidHeaderFieldName(k.Name) {
			c.Failf("%s: sticky: invalid cookie name %q", what, k.Name)
		}
		s.domain, s.path, s.sameSite = c.Text("sticky", k.Domain), c.Text("sticky", k.Path), c.Text("sticky", k.SameSite)
	} else if len(s.routes) == 0 {
		c.Failf("%s: sticky: neither a cookie nor routes", what)
	}
	return s
}

// route returns the route of the client's server, or "".
func (s *sticky) route(x *core.Exchange) string {
	if s.cookie != nil {
		if cookie, err := x.Request.Cookie(s.cookie.Name); err == nil {
			return cookie.Value
		}
		return ""
	}
	for i := range s.routes {
		if route := s.routes[i].Eval(x); route != "" {
			return route
		}
	}
	return ""
}

// bind binds the client to the server that responded.
func (s *sticky) bind(x *core.Exchange, turn *upstream.Turn) {
	route := turn.Route()
	if s.cookie != nil && (s.cookie.Expires != 0 || s.route(x) != route) {
		if line := s.setCookie(x, route); httpguts.ValidHeaderFieldValue(line) {
			header := x.Response.Header()
			header["Set-Cookie"] = append(header["Set-Cookie"], line)
		}
	}
}

func (s *sticky) setCookie(x *core.Exchange, route string) string {
	var b strings.Builder
	b.WriteString(s.cookie.Name + "=" + route)
	attribute := func(name, value string) {
		if value = strings.TrimSpace(value); value != "" && !strings.ContainsRune(value, ';') {
			b.WriteString("; " + name + "=" + value)
		}
	}
	if expires := s.cookie.Expires; expires != 0 {
		if expires < 0 {
			expires = forever
		}
		attribute("Expires", time.Now().Add(expires).UTC().Format(http.TimeFormat))
		attribute("Max-Age", strconv.Itoa(int(expires/time.Second)))
	}
	attribute("Domain", s.domain.Eval(x))
	attribute("Path", s.path.Eval(x))
	if s.cookie.HTTPOnly {
		b.WriteString("; HttpOnly")
	}
	if s.cookie.Secure {
		b.WriteString("; Secure")
	}
	attribute("SameSite", s.sameSite.Eval(x))
	return b.String()
}
