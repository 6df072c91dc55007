package nginxconf

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

// minZone is nginx's least size of a zone of shared memory.
const minZone = 32 << 10

// zone is the parameter zone=NAME:SIZE, which registers the zone.
func (t *translator) zone(d *syntax.Directive, z *conf.Zone) param {
	return param{"zone=", func(text string) error {
		name, size, sized := strings.Cut(text, ":")
		if name == "" || !sized {
			return errors.New("must be zone=NAME:SIZE, such as zone=one:10m")
		}
		bytes, err := grammar.ParseSize(size)
		if err != nil {
			return err
		}
		if bytes < minZone {
			return errors.New("too small (minimum: 32k)")
		}
		if other := t.zones[name]; other != nil {
			return fmt.Errorf("duplicate zone (first one at %s)", other.Where())
		}
		t.zones[name], z.Name, z.Bytes = d, name, bytes
		return nil
	}}
}

func (t *translator) requestZone(d *syntax.Directive) {
	z := conf.Zone{Key: t.text(d, d.Args[0])}
	t.params(d, d.Args[1:], t.zone(d, &z), value("rate=", &z.Rate, parseRate))
	if z.Name == "" || z.Rate == 0 {
		t.errorf(d, "missing zone=NAME:SIZE or rate=NUMBERr/s")
	}
	t.config.Requests = append(t.config.Requests, z)
}

func parseRate(text string) (float64, error) {
	digits, per := strings.CutSuffix(text, "r/s")
	seconds := 1.0
	if !per {
		digits, per = strings.CutSuffix(text, "r/m")
		seconds = 60
	}
	n, err := grammar.ParseNumber(digits)
	if !per || err != nil || n == 0 {
		return 0, fmt.Errorf("invalid rate %s (examples: 10r/s, 30r/m)", grammar.Quote(text))
	}
	return float64(n) / seconds, nil
}

func (t *translator) connZone(d *syntax.Directive) {
	z := conf.Zone{Key: t.text(d, d.Args[0])}
	t.params(d, d.Args[1:], t.zone(d, &z))
	t.config.Conns = append(t.config.Conns, z)
}

// checkZone checks that a zone exists, and that the right directive defines it.
func (t *translator) checkZone(d *syntax.Directive, name, maker string) {
	if z := t.zones[name]; t.ok() && (z == nil || z.Name != maker) {
		t.errorf(d, "unknown zone %s (no %s defines it)", grammar.Quote(name), maker)
	}
}

func (t *translator) requestLimits(s *scope) []conf.RequestLimit {
	var all []conf.RequestLimit
	for _, d := range s.all("limit_req") {
		var l conf.RequestLimit
		t.params(d, d.Args, value("zone=", &l.Zone, nonEmpty), number("burst=", &l.Burst, 1),
			number("delay=", &l.Delay, 1), word("nodelay", &l.NoDelay))
		if l.Zone == "" {
			t.errorf(d, "missing zone=NAME")
		} else {
			t.checkZone(d, l.Zone, "limit_req_zone")
		}
		for _, other := range all {
			if other.Zone == l.Zone {
				t.errorf(d, "duplicate %s", grammar.Quote("zone="+l.Zone))
			}
		}
		all = append(all, l)
	}
	return all
}

func (t *translator) connLimits(s *scope) []conf.ConnLimit {
	var all []conf.ConnLimit
	for _, d := range s.all("limit_conn") {
		n, err := grammar.ParseNumber(d.Args[1])
		if err != nil || n == 0 || n > 65535 {
			t.errorf(d, "invalid number %s (1 to 65535)", grammar.Quote(d.Args[1]))
		}
		t.checkZone(d, d.Args[0], "limit_conn_zone")
		for _, other := range all {
			if other.Zone == d.Args[0] {
				t.errorf(d, "duplicate zone %s", grammar.Quote(other.Zone))
			}
		}
		all = append(all, conf.ConnLimit{Zone: d.Args[0], Max: int(n)})
	}
	return all
}
