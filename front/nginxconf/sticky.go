package nginxconf

import (
	"errors"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

// sticky translates sticky; nil without it.
func (t *translator) sticky(s *scope) *conf.Sticky {
	d := s.one("sticky")
	if d == nil {
		return nil
	}
	all, args := new(conf.Sticky), d.Args[1:]
	switch d.Args[0] {
	case "cookie":
		if len(args) == 0 {
			t.errorf(d, "missing name of the cookie")
			return nil
		}
		c := &conf.StickyCookie{Name: args[0]}
		all.Cookie = c
		t.params(d, args[1:],
			value("expires=", &c.Expires, func(text string) (time.Duration, error) {
				if text == "max" {
					return -1, nil
				}
				return grammar.ParseSeconds(text)
			}),
			t.textParam(d, "domain=", &c.Domain), t.textParam(d, "path=", &c.Path),
			value("samesite=", &c.SameSite, func(text string) (conf.Text, error) { return t.sameSite(d, text) }),
			word("httponly", &c.HTTPOnly), word("secure", &c.Secure))
	case "route":
		if len(args) == 0 {
			t.errorf(d, "missing variables")
		}
		for _, arg := range args {
			all.Routes = append(all.Routes, t.text(d, arg))
		}
	case "learn":
		t.omit(d, "method \"learn\" is not supported (use cookie, or route with the session's variable)")
		return nil
	default:
		t.errorf(d, "invalid method %s (must be cookie or route)", grammar.Quote(d.Args[0]))
	}
	return all
}

// sameSite translates samesite= of sticky cookie.
func (t *translator) sameSite(d *syntax.Directive, text string) (conf.Text, error) {
	switch lower := strings.ToLower(text); {
	case hasVariable(text):
		return t.text(d, text), nil
	case lower == "strict", lower == "lax", lower == "none":
		return conf.Text(strings.ToUpper(lower[:1]) + lower[1:]), nil
	}
	return "", errors.New("must be strict, lax, none or a variable")
}
