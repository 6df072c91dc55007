package nginxconf

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

func (t *translator) upstream(d *syntax.Directive, http *scope) {
	u := conf.Upstream{Name: d.Args[0], Pos: d.Place()}
	t.upstreams[strings.ToLower(u.Name)] = true
	s := newScope(nil, levelUpstream, d.Block)
	// it inherits nothing but the resolver: keepalive_timeout and others have another meaning in
	// http
	if u.Resolver = t.resolver(s); u.Resolver == nil {
		u.Resolver = t.resolver(http)
	}
	balancer := t.balance(s, &u)
	u.Sticky = t.sticky(s)
	for _, server := range s.own("server") {
		u.Servers = append(u.Servers, t.upstreamServer(server, balancer))
	}
	u.Keepalive = s.number("keepalive", 0)
	u.KeepaliveTimeout, u.KeepaliveTime = s.time("keepalive_timeout"), s.time("keepalive_time")
	// as in nginx, no idle connection is kept if either is 0
	if u.KeepaliveRequests = s.number("keepalive_requests", 1); u.KeepaliveTimeout == 1 {
		u.KeepaliveRequests = 1
	}
	t.config.Upstreams = append(t.config.Upstreams, u)
}

// balance finds the load balancing method: a directive that the table marks as a balancer. As in
// nginx, the last one counts.
func (t *translator) balance(s *scope, u *conf.Upstream) (isOf *syntax.Directive) {
	for _, d := range s.list {
		if !d.Spec.Balancer {
			continue
		}
		if isOf != nil {
			t.warn(d, "overrides the load balancing method at %s", isOf.Where())
		}
		isOf, u.Balance = d, conf.Balance{Method: d.Name}
		for _, arg := range d.Args {
			u.Balance.Args = append(u.Balance.Args, t.text(d, arg))
		}
	}
	return isOf
}

// upstreamServer translates a server of an upstream. balancer is nil for round robin.
func (t *translator) upstreamServer(d, balancer *syntax.Directive) conf.Server {
	server := conf.Server{Addr: d.Args[0]}
	t.check(d, checkServerAddr(server.Addr))
	t.params(d, d.Args[1:],
		number("weight=", &server.Weight, 1),
		number("max_conns=", &server.MaxConns, 0),
		value("max_fails=", &server.MaxFails, func(text string) (int, error) {
			n, err := grammar.ParseNumber(text)
			if n == 0 {
				n = -1 // 0 is the default
			}
			return int(n), err
		}),
		value("fail_timeout=", &server.FailTimeout, func(text string) (time.Duration, error) {
			at, err := grammar.ParseSeconds(text)
			return max(at, time.Millisecond), err
		}),
		value("slow_start=", &server.SlowStart, grammar.ParseTime),
		value("route=", &server.Route, nonEmpty),
		word("backup", &server.Backup), word("down", &server.Down), word("drain", &server.Drain),
		word("resolve", &server.Resolve),
		t.unsupportedParam(d, "service=", "remove it"))
	if balancer != nil && balancer.Spec.NoBackup {
		if server.Backup {
			t.errorf(d, "backup cannot be combined with %s", balancer.Name)
		}
		if server.SlowStart > 0 {
			t.errorf(d, "slow_start cannot be combined with %s", balancer.Name)
		}
	}
	return server
}

// checkServerAddr checks the address of a server: HOST, HOST:PORT or unix:PATH.
func checkServerAddr(addr string) error {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		if path == "" {
			return fmt.Errorf("missing path (must be unix:PATH)")
		}
		return nil
	}
	host, port := grammar.SplitPort(addr, "80")
	if _, err := grammar.ParsePort(port); err != nil || host == "" || strings.ContainsAny(host, "/$ ") {
		return fmt.Errorf("invalid address %s (must be HOST, HOST:PORT or unix:PATH)", grammar.Quote(addr))
	}
	return nil
}

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
		t.check(header, err)
		m.Header = append(m.Header, h)
	}
	for _, body := range s.own("body") {
		m.Body, m.NotBody = body.Args[1], body.Args[0] == "!~"
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
		h := new(conf.HealthCheck)
		p.Check = h
		t.params(d, d.Args,
			value("interval=", &h.Interval, grammar.ParseTime), value("jitter=", &h.Jitter, grammar.ParseTime),
			number("fails=", &h.Fails, 1), number("passes=", &h.Passes, 1),
			value("uri=", &h.URI, func(text string) (string, error) { return text, nil }),
			word("mandatory", &h.Mandatory), word("persistent", &h.Persistent),
			value("match=", &h.Match, t.matchOf),
			value("port=", &h.Port, func(text string) (int, error) {
				port, err := grammar.ParsePort(text)
				return int(port), err
			}))
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
