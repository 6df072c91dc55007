package nginxconf

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// upstream translates an upstream block.
func (t *translator) upstream(d *directive) {
	u := conf.Upstream{Name: d.args[0], Pos: d.where()}
	if other := t.upstreams[strings.ToLower(u.Name)]; other != nil {
		t.errorf(d, "duplicate upstream %s (first one at %s)", shown(u.Name), other.where())
		return
	}
	t.upstreams[strings.ToLower(u.Name)] = d
	s := newScope(nil, levelUpstream, d.block)
	t.balance(s, &u)
	for _, server := range s.own("server") {
		u.Servers = append(u.Servers, t.upstreamServer(server, u.Balance))
	}
	if len(u.Servers) == 0 {
		t.errorf(d, "no server in upstream %s", shown(u.Name))
	}
	for _, keep := range s.own("keepalive") {
		if u.Keepalive = int(t.number(keep, keep.args[0])); u.Keepalive == 0 {
			t.errorf(keep, "invalid number 0 (must be greater than 0; without keepalive no idle connections are kept)")
		}
	}
	u.KeepaliveTimeout, u.KeepaliveTime = s.time("keepalive_timeout"), s.time("keepalive_time")
	u.KeepaliveRequests = s.number("keepalive_requests")
	if isZero(s, "keepalive_requests") || isZero(s, "keepalive_timeout") {
		u.KeepaliveRequests = 1 // as in nginx, no idle connection is kept then
	}
	t.config.Upstreams = append(t.config.Upstreams, u)
}

// isZero reports whether a directive exists with zero as its number or time.
func isZero(s *scope, name string) bool {
	d := s.one(name)
	if d == nil {
		return false
	}
	t, err := conf.ParseTime(d.args[0])
	return err == nil && t == 0
}

// number parses an argument that is a number.
func (t *translator) number(d *directive, arg string) int64 {
	n, err := conf.ParseNumber(arg)
	if err != nil {
		t.errorf(d, "%v", err)
	}
	return n
}

// balance finds the method of load balancing. As in nginx, the last directive counts.
func (t *translator) balance(s *scope, u *conf.Upstream) {
	var first *directive
	for _, d := range s.list {
		balance, is := t.balanceOf(d, u)
		if !is {
			continue
		}
		if u.Balance = balance; first != nil {
			t.warn(d, "overrides the load balancing method at %s", first.where())
		}
		first = d
	}
}

func (t *translator) balanceOf(d *directive, u *conf.Upstream) (conf.Balance, bool) {
	switch d.name {
	case "least_conn":
		return conf.LeastConn, true
	case "ip_hash":
		return conf.IPHash, true
	case "hash":
		u.Key = t.text(d, d.args[0])
		if len(d.args) == 1 {
			return conf.Hash, true
		}
		if d.args[1] != "consistent" {
			t.errorf(d, "invalid parameter %s (must be consistent)", shown(d.args[1]))
		}
		return conf.ConsistentHash, true
	case "random":
		if len(d.args) == 0 {
			return conf.Random, true
		}
		if d.args[0] != "two" {
			t.errorf(d, "invalid parameter %s (must be two)", shown(d.args[0]))
		}
		if len(d.args) == 2 && d.args[1] != "least_conn" {
			t.omit(d, "%s is not supported (use least_conn)", shown(d.args[1]))
		}
		return conf.RandomTwo, true
	}
	return 0, false
}

// upstreamServer translates a server of an upstream.
func (t *translator) upstreamServer(d *directive, b conf.Balance) conf.Server {
	server := conf.Server{Addr: d.args[0]}
	if err := checkServerAddr(server.Addr); err != nil {
		t.errorf(d, "%v", err)
	}
	for _, arg := range d.args[1:] {
		if err := t.serverParameter(d, arg, &server); err != nil {
			t.errorf(d, "%v", err)
		}
	}
	if server.Backup && b != conf.RoundRobin && b != conf.LeastConn {
		t.errorf(d, "backup cannot be combined with load balancing by a hash or at random")
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
	host, port := addr, "80"
	if end := strings.LastIndexByte(addr, ':'); end > strings.LastIndexByte(addr, ']') {
		host, port = addr[:end], addr[end+1:]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || host == "" || strings.ContainsAny(host, "/$ ") {
		return fmt.Errorf("invalid address %s (must be HOST, HOST:PORT or unix:PATH)", shown(addr))
	}
	return nil
}

func (t *translator) serverParameter(d *directive, arg string, server *conf.Server) error {
	name, value, has := parameter(arg)
	switch {
	case arg == "backup":
		server.Backup = true
		return nil
	case arg == "down":
		server.Down = true
		return nil
	case name == "fail_timeout" && has:
		at, err := conf.ParseSeconds(value)
		if err != nil {
			return err
		}
		server.FailTimeout = max(at, time.Millisecond)
		return nil
	case arg == "resolve", arg == "drain", name == "service", name == "slow_start", name == "route":
		t.omit(d, "parameter %s is not supported (remove it)", shown(arg))
		return nil
	}
	n, err := conf.ParseNumber(value)
	if err != nil || !has || name == "weight" && n == 0 {
		return fmt.Errorf(
			"invalid parameter %s (must be weight=, max_conns=, max_fails=, fail_timeout=, backup or down)", shown(arg))
	}
	switch name {
	case "weight":
		server.Weight = int(n)
	case "max_conns":
		server.MaxConns = int(n)
	case "max_fails":
		if server.MaxFails = int(n); n == 0 {
			server.MaxFails = -1
		}
	default:
		return fmt.Errorf("unknown parameter %s", shown(arg))
	}
	return nil
}
