package nginxconf

import (
	"fmt"
	"strings"

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
		all.Cookie = &conf.StickyCookie{Name: args[0]}
		for _, arg := range args[1:] {
			if err := t.stickyCookie(d, arg, all.Cookie); err != nil {
				t.errorf(d, "%v", err)
			}
		}
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

// stickyCookie translates a parameter of sticky cookie.
func (t *translator) stickyCookie(d *syntax.Directive, arg string, c *conf.StickyCookie) (err error) {
	name, value, has := parameter(arg)
	switch {
	case arg == "httponly":
		c.HTTPOnly = true
	case arg == "secure":
		c.Secure = true
	case arg == "expires=max":
		c.Expires = -1
	case name == "expires" && has:
		c.Expires, err = grammar.ParseSeconds(value)
	case name == "domain" && has:
		c.Domain = t.text(d, value)
	case name == "path" && has:
		c.Path = t.text(d, value)
	case name == "samesite" && has:
		switch lower := strings.ToLower(value); {
		case hasVariable(value):
			c.SameSite = t.text(d, value)
		case lower == "strict", lower == "lax", lower == "none":
			c.SameSite = conf.Text(strings.ToUpper(lower[:1]) + lower[1:])
		default:
			err = fmt.Errorf("invalid value in %s (must be strict, lax, none or a variable)", grammar.Quote(arg))
		}
	default:
		err = fmt.Errorf("unknown parameter %s", grammar.Quote(arg))
	}
	return err
}
