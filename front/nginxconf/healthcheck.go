package nginxconf

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

func (t *translator) healthMatch(d *syntax.Directive) {
	m := &conf.HealthMatch{Name: d.Args[0]}
	if t.matches[m.Name] != nil {
		t.errorf(d, "duplicate match %s", grammar.Quote(m.Name))
	}
	t.matches[m.Name] = m
	s := newScope(nil, levelMatch, d.Block)
	for _, status := range s.own("status") {
		args := status.Args
		if m.NotStatus = args[0] == "!"; m.NotStatus {
			args = args[1:]
		}
		if len(args) == 0 {
			t.errorf(status, "missing status")
		}
		for _, arg := range args {
			from, to, isRange := strings.Cut(arg, "-")
			if !isRange {
				to = from
			}
			first, err := grammar.ParseNumber(from)
			last, err2 := grammar.ParseNumber(to)
			if err != nil || err2 != nil || first < 100 || last > 999 || first > last {
				t.errorf(status, "invalid status %s (must be a number or a range)", grammar.Quote(arg))
			}
			m.Statuses = append(m.Statuses, [2]int{int(first), int(last)})
		}
	}
	for _, header := range s.own("header") {
		h, err := headerMatch(header.Args)
		if err != nil {
			t.errorf(header, "%v", err)
		}
		m.Header = append(m.Header, h)
	}
	for _, body := range s.own("body") {
		if m.Body, m.NotBody = body.Args[1], body.Args[0] == "!~"; !m.NotBody && body.Args[0] != "~" {
			t.errorf(body, "invalid operator %s (must be ~ or !~)", grammar.Quote(body.Args[0]))
		}
	}
}

// headerMatch translates a header directive: NAME, ! NAME or NAME OPERATOR VALUE.
func headerMatch(args []string) (conf.HeaderMatch, error) {
	switch {
	case len(args) == 1 && args[0] != "!":
		return conf.HeaderMatch{Name: args[0]}, nil
	case len(args) == 2 && args[0] == "!":
		return conf.HeaderMatch{Name: args[1], Op: "!"}, nil
	case len(args) == 3 && (args[1] == "=" || args[1] == "!=" || args[1] == "~" || args[1] == "!~"):
		return conf.HeaderMatch{Name: args[0], Op: args[1], Value: args[2]}, nil
	}
	return conf.HeaderMatch{}, fmt.Errorf("invalid condition (must be NAME, ! NAME or NAME OPERATOR VALUE)")
}

// healthCheck translates health_check of a location with proxy_pass. Servers of gRPC would fail its
// requests.
func (t *translator) healthCheck(from *scope, p *conf.Proxy) {
	for _, d := range from.own("health_check") {
		if p == nil || len(from.own("proxy_pass")) == 0 {
			t.errorf(d, "requires proxy_pass")
			return
		}
		h := &conf.HealthCheck{Pos: d.Place()}
		p.Check = h
		t.params(d, d.Args,
			value("interval=", &h.Interval, grammar.ParseTime), value("jitter=", &h.Jitter, grammar.ParseTime),
			number("fails=", &h.Fails, 1), number("passes=", &h.Passes, 1),
			value("uri=", &h.URI, func(text string) (string, error) { return text, nil }),
			word("mandatory", &h.Mandatory), word("persistent", &h.Persistent),
			value("match=", &h.Match, t.matchOf),
			value("port=", &h.Port, func(text string) (int, error) {
				first, last, err := ports(text)
				if first != last {
					err = errors.New("must be one port")
				}
				return int(first), err
			}),
			value("keepalive_time=", &h.KeepaliveTime, grammar.ParseSeconds))
		if h.Persistent && !h.Mandatory {
			t.errorf(d, "persistent requires mandatory")
		}
	}
}

func (t *translator) matchOf(name string) (*conf.HealthMatch, error) {
	m := t.matches[name]
	if m == nil {
		return nil, fmt.Errorf("unknown match %s", grammar.Quote(name))
	}
	return m, nil
}
