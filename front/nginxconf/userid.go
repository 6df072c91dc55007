package nginxconf

import (
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
)

// userID translates userid and the directives with that prefix. Without userid they have no effect.
func (t *translator) userID(s *scope) *conf.UserID {
	mode := strings.ToLower(s.word("userid"))
	isOff := mode == "" || mode == "off"
	if isOff && s.own("userid_mark") == nil && s.own("userid_expires") == nil {
		return nil // without an allocation
	}
	u := &conf.UserID{Mode: mode}
	u.Name, u.Path = s.word("userid_name"), s.word("userid_path")
	if u.Domain = s.word("userid_domain"); u.Domain == "none" {
		u.Domain = ""
	}
	if u.P3P = s.word("userid_p3p"); u.P3P == "none" {
		u.P3P = ""
	}
	if s.one("userid_service") != nil {
		n := uint32(s.number("userid_service", 0))
		u.Service = &n
	}
	if d := s.one("userid_mark"); d != nil && d.Args[0] != "off" {
		if u.Mark = d.Args[0]; len(u.Mark) != 1 || !isMark(u.Mark[0]) {
			t.errorf(d, "invalid value %s (must be a letter, a digit, = or off)", grammar.Quote(u.Mark))
		}
	}
	switch d := s.one("userid_expires"); {
	case d == nil || d.Args[0] == "off":
	case d.Args[0] == "max":
		u.Expires = -1
	default:
		var err error
		u.Expires, err = grammar.ParseSeconds(d.Args[0])
		t.check(d, err)
	}
	if isOff {
		return nil
	}
	u.Flags = t.cookieFlags(s)
	return u
}

func isMark(c byte) bool {
	return c == '=' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// cookieFlags returns the flags of userid_flags in nginx's order. As in nginx off has no effect
// beside others, and the first samesite counts.
func (t *translator) cookieFlags(s *scope) (flags []string) {
	d := s.one("userid_flags")
	if d == nil {
		return nil
	}
	var args []string
	for _, arg := range d.Args {
		arg = strings.ToLower(arg)
		if strings.HasPrefix(arg, "samesite=") && slices.ContainsFunc(args, func(a string) bool {
			return strings.HasPrefix(a, "samesite=")
		}) {
			t.warn(d, "%s has no effect: the first samesite counts", grammar.Quote(arg))
			continue
		}
		args = append(args, arg)
	}
	for _, flag := range []string{"secure", "httponly", "samesite=strict", "samesite=lax", "samesite=none"} {
		if slices.Contains(args, flag) {
			flags = append(flags, flag)
		}
	}
	return flags
}
