package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/internal/message"
)

// proxyTarget is where a Proxy sends requests: a group of upstream servers or a bound handler.
type proxyTarget struct {
	text      core.Text
	protocol  string         // conf.Proxy.Protocol
	usesTLS   bool           // unless text has a scheme
	group     *upstreamGroup // nil if it depends on variables
	bound     http.Handler   // nil if it depends on variables, or is a group
	upstreams upstreams
	dynamic   *fetch.Groups // groups for addresses that come from variables
	name      targetName    // set if text is constant
}

// targetName holds the values of $proxy_host and $proxy_port.
type targetName struct{ host, port string }

// destination is where one request goes.
type destination struct {
	servers *fetch.Servers
	group   *upstreamGroup // of servers; nil if their address comes from variables
	bound   http.Handler
	rest    string // what follows the address in the value of a variable
	usesTLS bool
}

func compileTarget(c *core.Compiler, p *proxy, l *conf.Location) {
	t := &p.target
	t.protocol, t.upstreams = l.Proxy.Protocol, core.PlanPart[upstreams](c.Plan)
	t.usesTLS = t.protocol == "https"
	t.text = c.Text("proxy target", l.Proxy.To)
	switch {
	case t.text.Empty():
		c.Failf("proxy: missing To: the upstream's name or address")
	case t.text.Constant() && t.mayHaveScheme():
		c.Failf("proxy: the protocol %s requires variables in To: use https or none, and leave the scheme out of To",
			t.protocol)
	case t.text.Constant():
		t.name = t.nameOf(t.text.Literal, core.DefaultPort(t.usesTLS))
		if t.bound = boundTo(c.Options, t.text.Literal); t.bound == nil && !resolvesLater(c, l.Proxy) {
			t.group = targetGroup(c, t.text.Literal)
		}
	}
	if t.bound == nil && t.group == nil {
		t.dynamic = compileDynamicGroups(c, l.Proxy)
	}
}

// mayHaveScheme reports whether the value of text may begin with a scheme.
func (t *proxyTarget) mayHaveScheme() bool { return t.protocol == "scheme" || t.protocol == "grpc" }

// keepAlive returns the settings of connections to the group, those of an address without one.
func (t *proxyTarget) keepAlive() fetch.KeepAlive {
	if t.group == nil {
		return fetch.KeepAliveOf(new(conf.Upstream))
	}
	return fetch.KeepAliveOf(t.group.servers.Peers.Config())
}

// resolvesLater reports whether a constant To is resolved for each request. As in nginx this is so
// if the rest of the URL has variables. Such a configuration is valid even if the name does not
// resolve.
func resolvesLater(c *core.Compiler, p *conf.Proxy) bool {
	addr := string(p.To)
	if p.URI == nil || !strings.Contains(string(*p.URI), "$") ||
		core.PlanPart[upstreams](c.Plan).find(addr) != nil || strings.HasPrefix(addr, "unix:") {
		return false
	}
	host, _ := grammar.SplitPort(addr, "")
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err != nil
}

// nameOf returns the values of $proxy_host and $proxy_port, which FastCGI does not have. $proxy_host
// leaves out the default port.
func (g *proxyTarget) nameOf(addr, defaultPort string) targetName {
	if g.protocol == "fastcgi" {
		return targetName{}
	}
	if strings.HasPrefix(addr, "unix:") {
		return targetName{"localhost", ""}
	}
	host, port := grammar.SplitPort(addr, defaultPort)
	if port != defaultPort {
		host = addr
	}
	return targetName{host, port}
}

func (g *proxyTarget) resolve(x *core.Exchange) (destination, error) {
	state := stateOf(x)
	d := destination{group: g.group, bound: g.bound, usesTLS: g.usesTLS}
	if d.group != nil || d.bound != nil {
		if d.group != nil {
			d.servers = d.group.servers
		}
		return d, nil
	}
	addr := g.text.Eval(x)
	switch g.protocol {
	case "scheme":
		var ok bool
		if addr, d.usesTLS, ok = cutScheme(addr, "http", "https"); !ok {
			return d, fmt.Errorf("the URL begins neither with http:// nor with https://: %q", errorlog.Truncate(addr))
		}
	case "grpc": // it may have no scheme
		addr, d.usesTLS, _ = cutScheme(addr, "grpc", "grpcs")
	}
	addr, d.rest = cutURI(addr)
	port := core.DefaultPort(d.usesTLS)
	state.target = g.nameOf(addr, port)
	if g.protocol == "fastcgi" {
		port = "" // FastCGI has no default port
	}
	if d.bound = boundTo(x.Plan.Options, addr); d.bound != nil {
		return d, nil
	}
	to := addr
	if !strings.HasPrefix(addr, "unix:") {
		host, port := grammar.SplitPort(addr, port)
		to = host + ":" + port
	}
	if d.group = g.upstreams.find(addr); d.group == nil {
		d.group = g.upstreams.find(to)
	}
	if d.group != nil {
		d.servers = d.group.servers
		return d, nil
	}
	var err error
	d.servers, err = g.dynamic.Servers(x.Request.Context(), to)
	if err != nil && to[0] != '[' && message.IsAuthority(to) {
		// nginx would look the name up, whatever bytes it has
		err = &net.DNSError{UnwrapErr: err, Err: err.Error(), Name: to, IsNotFound: true}
	}
	return d, err
}

// targetErrorStatus returns the status for a target that does not resolve. As in nginx an invalid
// address is an error of the configuration (500), and an unknown name is not (502).
func targetErrorStatus(err error) int {
	var unknown *net.DNSError
	if errors.As(err, &unknown) || errors.Is(err, fetch.ErrClosed) {
		return http.StatusBadGateway
	}
	return http.StatusInternalServerError
}

// cutScheme removes the scheme of a URL, which is plain or secure.
func cutScheme(url, plain, secure string) (rest string, usesTLS, ok bool) {
	scheme, rest, _ := strings.Cut(url, "://")
	switch strings.ToLower(scheme) {
	case plain:
		return rest, false, true
	case secure:
		return rest, true, true
	}
	return url, false, false
}

// cutURI splits the value of variables into an address and the rest.
func cutURI(text string) (addr, rest string) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		path, rest, _ = strings.Cut(path, ":")
		return "unix:" + path, rest
	}
	if i := strings.IndexAny(text, "/?"); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}
