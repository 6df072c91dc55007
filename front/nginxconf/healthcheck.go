package nginxconf

import (
	"fmt"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

// healthMatch translates a match block.
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
		p.Check = &conf.HealthCheck{Pos: d.Place()}
		for _, arg := range d.Args {
			if err := t.checkParameter(arg, p.Check); err != nil {
				t.errorf(d, "%v", err)
			}
		}
		if p.Check.Persistent && !p.Check.Mandatory {
			t.errorf(d, "persistent requires mandatory")
		}
	}
}

// checkParameter translates a parameter of health_check.
func (t *translator) checkParameter(arg string, h *conf.HealthCheck) (err error) {
	name, value, has := parameter(arg)
	switch {
	case arg == "mandatory":
		h.Mandatory = true
		return nil
	case arg == "persistent":
		h.Persistent = true
		return nil
	case !has:
	case name == "interval":
		h.Interval, err = grammar.ParseTime(value)
		return err
	case name == "jitter":
		h.Jitter, err = grammar.ParseTime(value)
		return err
	case name == "keepalive_time":
		h.KeepaliveTime, err = grammar.ParseSeconds(value)
		return err
	case name == "uri":
		h.URI = value
		return nil
	case name == "match":
		if h.Match = t.matches[value]; h.Match == nil {
			return fmt.Errorf("unknown match %s", grammar.Quote(value))
		}
		return nil
	case name == "fails", name == "passes", name == "port":
		n, err := grammar.ParseNumber(value)
		if err != nil || n == 0 || name == "port" && n > 65535 {
			return fmt.Errorf("invalid number in %s", grammar.Quote(arg))
		}
		switch name {
		case "fails":
			h.Fails = int(n)
		case "passes":
			h.Passes = int(n)
		default:
			h.Port = int(n)
		}
		return nil
	}
	return fmt.Errorf("unknown parameter %s (must be interval=, jitter=, fails=, passes=, uri=, mandatory, persistent, "+
		"match=, port= or keepalive_time=)", grammar.Quote(arg))
}
