package nginxconf

import (
	"fmt"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
)

// resolver translates the resolver of a scope; nil stands for the system's.
func (t *translator) resolver(s *scope) *conf.Resolver {
	d := s.one("resolver")
	if d == nil {
		return nil
	}
	r := &conf.Resolver{Timeout: s.time("resolver_timeout")}
	for _, arg := range d.Args {
		if err := resolverParameter(arg, r); err != nil {
			t.errorf(d, "%v", err)
		}
	}
	switch {
	case len(r.Servers) == 0:
		t.errorf(d, "no DNS servers")
	case r.NoIPv4 && r.NoIPv6:
		t.errorf(d, "ipv4 and ipv6 cannot both be off")
	}
	return r
}

// resolverParameter translates an argument of resolver: a parameter or the address of a server.
func resolverParameter(arg string, r *conf.Resolver) (err error) {
	name, value, has := parameter(arg)
	if !has {
		if err := checkServerAddr(arg); err != nil {
			return fmt.Errorf("invalid address %s (must be HOST or HOST:PORT)", grammar.Quote(arg))
		}
		r.Servers = append(r.Servers, arg)
		return nil
	}
	off := false
	switch name {
	case "valid":
		if r.Valid, err = grammar.ParseSeconds(value); err != nil {
			return fmt.Errorf("invalid time in %s", grammar.Quote(arg))
		}
	case "ipv4", "ipv6":
		if off = value == "off"; !off && value != "on" {
			return fmt.Errorf("invalid value of %s (must be on or off)", grammar.Quote(arg))
		}
		if name == "ipv4" {
			r.NoIPv4 = off
		} else {
			r.NoIPv6 = off
		}
	case "status_zone":
		if r.StatusZone = value; value == "" {
			return fmt.Errorf("missing name in %s", grammar.Quote(arg))
		}
	default:
		return fmt.Errorf("unknown parameter %s (must be valid=, ipv4=, ipv6= or status_zone=)", grammar.Quote(arg))
	}
	return nil
}
