package nginxconf

import (
	"strings"

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
	not := func(text string) (bool, error) {
		on, err := onOff(text)
		return !on, err
	}
	for i, arg := range d.Args {
		if strings.Contains(arg, "=") {
			t.params(d, d.Args[i:i+1],
				value("valid=", &r.Valid, grammar.ParseSeconds), value("ipv4=", &r.NoIPv4, not),
				value("ipv6=", &r.NoIPv6, not), value("status_zone=", &r.StatusZone, nonEmpty))
			continue
		}
		if err := checkServerAddr(arg); err != nil {
			t.errorf(d, "invalid address %s (must be HOST or HOST:PORT)", grammar.Quote(arg))
		}
		r.Servers = append(r.Servers, arg)
	}
	switch {
	case len(r.Servers) == 0:
		t.errorf(d, "no DNS servers")
	case r.NoIPv4 && r.NoIPv6:
		t.errorf(d, "ipv4 and ipv6 cannot both be off")
	}
	return r
}
