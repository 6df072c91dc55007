package core

import (
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/clientcert"
	"github.com/tarehq/tare/front/internal/hostname"
	"github.com/tarehq/tare/front/internal/message"
	"github.com/tarehq/tare/front/internal/nginxstatus"
	"github.com/tarehq/tare/front/internal/places"
)

type host struct {
	from        *conf.Host // nil if no Host of the Config
	name        string     // the first one, for $server_name
	pos         string
	steps       []action
	locations   locations
	named       map[string]*Location
	defaults    Location // for requests in no location
	KeepSlashes bool
	Fields      message.FieldNames   // which fields of requests are forwarded
	Certs       *clientcert.Verifier // nil leaves client certificates to the server
	clientAuth  tls.ClientAuthType   // what the server requires, if certs is nil
	counts      *ResponseCounts      // nil if nothing shows counts
}

// hostGroup holds the hosts of one address.
type hostGroup struct {
	defaultHost   *host // for unknown names
	hosts         int
	isSingle      bool // names do not matter
	names         *hostname.Map[*host]
	patterns      []hostPattern
	requestsCerts bool // one of the hosts requests client certificates
	connections   connectionRules
}

// connectionRules are properties of an address that its connections must have. After a reload a
// connection may be of another Config, in which its address had others, or was not named.
type connectionRules struct {
	requiresTLS, requiresProxyHeader bool
	ignoresProxyHeader               bool // the address is named without the PROXY protocol
}

// status returns the status of a request on a connection that may not reach the hosts, or 0.
func (c *connectionRules) status(x *Exchange) int {
	switch {
	case x.ExpectedTLS || c.requiresTLS && x.Request.TLS == nil:
		return nginxstatus.ToHTTPS
	case c.requiresProxyHeader && proxyHeaderOf(x.Request) == nil:
		return http.StatusBadRequest
	}
	return 0
}

type hostPattern struct {
	pattern *Pattern
	host    *host
}

func (g *hostGroup) hostFor(x *Exchange, name string) *host {
	if h := g.lookup(x, name); h != nil {
		return h
	}
	return g.defaultHost
}

// lookup returns the host with a name, or nil.
func (g *hostGroup) lookup(x *Exchange, name string) *host {
	if g.isSingle {
		return g.defaultHost
	}
	if h, ok := g.names.Find(name); ok {
		return h
	}
	for i := range g.patterns {
		if p := &g.patterns[i]; p.pattern.Match(x, name) {
			return p.host
		}
	}
	return nil
}

func (c *Compiler) host(from *conf.Host) *host {
	h := &host{from: from, pos: from.Pos, KeepSlashes: from.KeepSlashes, named: make(map[string]*Location)}
	h.Fields = message.FieldNames{Underscores: from.UnderscoreFields, Any: from.AnyFields}
	if len(from.Names) > 0 {
		h.name = strings.TrimPrefix(foldName(from.Names[0]), ".")
	}
	if from.ClientCerts != nil {
		c.checkWord("client certificates", "Mode", from.ClientCerts.Mode, "optional", "optional_no_ca")
	}
	h.Certs = clientcert.New(from.ClientCerts)
	for _, l := range from.Listen {
		if l.TLSConfig != nil {
			h.clientAuth = max(h.clientAuth, l.TLSConfig.ClientAuth)
		}
	}
	h.counts = c.CountResponses("host", h.name,
		Metric{"tare_responses_total", "Responses, by host and class of the status."},
		Metric{"tare_request_duration_seconds", "Durations of requests, up to the end of the response."})
	h.steps = c.steps(from.Steps)
	c.location(&h.defaults, &conf.Location{Settings: from.Defaults, Pos: from.Pos})
	c.locations(h, &h.locations, from.Locations, nil)
	return h
}

// foldName normalizes a name for comparison: lower case, without a trailing dot. Regular
// expressions are unchanged.
func foldName(name string) string {
	if strings.HasPrefix(name, "~") {
		return name
	}
	return strings.TrimSuffix(hostname.LowerASCII(name), ".")
}

// listen makes a hostGroup for each address. Hosts without an address are in all of them.
func (c *Compiler) listen(all []*host) {
	var addrs []string // "" is any other
	for i := range c.Config.Hosts {
		listens := c.Config.Hosts[i].Listen
		if len(listens) == 0 {
			addrs = append(addrs, "")
		}
		for _, l := range listens {
			if l.Addr == "" {
				c.At(all[i].pos, func() { c.Failf("empty listen address") })
			}
			addrs = append(addrs, l.Addr)
		}
	}
	slices.Sort(addrs)
	addrs = slices.Compact(addrs)
	groups := make([]*hostGroup, len(addrs))
	for i, addr := range addrs {
		groups[i] = c.hostsAt(addr, all)
	}
	hosts := &c.Plan.Hosts
	if !slices.ContainsFunc(groups, func(g *hostGroup) bool {
		return g.hosts != len(c.Config.Hosts) || g.defaultHost != groups[0].defaultHost
	}) {
		hosts.Any = groups[0]
		for _, g := range groups { // a connection that one address permits is permitted
			hosts.Any.connections = hosts.Any.connections.weaker(g.connections)
		}
		return
	}
	misdirected := new(host) // for addresses that no host listens on
	misdirected.steps = []action{func(x *Exchange) (Outcome, bool) {
		return x.Fail(http.StatusMisdirectedRequest), true
	}}
	misdirected.defaults.Rules = c.rules(nil)
	hosts.Any = &hostGroup{defaultHost: misdirected, isSingle: true}
	for i, addr := range addrs {
		c.Check("", hosts.Add(addr, groups[i]))
	}
}

func (c *Compiler) hostsAt(addr string, all []*host) *hostGroup {
	g := &hostGroup{names: hostname.NewMap[*host]()}
	var declared *host // the host with Default
	g.connections.ignoresProxyHeader = addr != ""
	for i, h := range all {
		from := &c.Config.Hosts[i]
		here := len(from.Listen) == 0
		for _, l := range from.Listen {
			if l.Addr != addr {
				continue
			}
			here = true
			g.connections.requiresTLS = g.connections.requiresTLS || l.TLS
			if l.Proxied {
				g.connections.requiresProxyHeader, g.connections.ignoresProxyHeader = true, false
			}
			if l.Default && declared != nil && declared != h {
				c.At(h.pos, func() {
					c.Failf("%s: duplicate default host, also at %s", addr, places.Line(declared.pos))
				})
			}
			if l.Default {
				declared = h
			}
		}
		if !here {
			continue
		}
		if g.defaultHost == nil {
			g.defaultHost = h
		}
		g.hosts++
		g.requestsCerts = g.requestsCerts || h.Certs != nil || h.clientAuth != tls.NoClientCert
		for _, name := range from.Names {
			c.At(h.pos, func() { c.addName(g, h, foldName(name)) })
		}
	}
	if declared != nil {
		g.defaultHost = declared
	}
	g.isSingle = len(g.patterns) == 0 && (g.hosts == 1 || g.names.Len() == 0)
	return g
}

// addName adds a host by a name. As in nginx the first host with a name keeps it.
func (c *Compiler) addName(g *hostGroup, h *host, name string) {
	if source, ok := strings.CutPrefix(name, "~"); ok {
		g.patterns = append(g.patterns, hostPattern{c.Pattern("server_name", source, true), h})
	} else {
		c.Check("", g.names.Add(name, h))
	}
}

// weaker returns the rules that both require.
func (c connectionRules) weaker(other connectionRules) connectionRules {
	return connectionRules{c.requiresTLS && other.requiresTLS, c.requiresProxyHeader && other.requiresProxyHeader,
		c.ignoresProxyHeader && other.ignoresProxyHeader}
}

// SniHost returns the host of the request's TLS handshake, and the SNI name; empty if the host is
// the address's default.
func (g *hostGroup) SniHost(x *Exchange) (h *host, name string) {
	if !g.isSingle {
		if name, ok := hostname.Parse(x.Request.TLS.ServerName); ok && name != "" {
			if h := g.lookup(x, name); h != nil {
				return h, name
			}
		}
	}
	return g.defaultHost, ""
}

// selectHost returns the host of a request, and a status if the connection does not satisfy the
// host. A client must not avoid a required certificate by naming one host in the handshake and
// another in the request. A connection may also be older than the current Config.
func (g *hostGroup) selectHost(x *Exchange, name string) (h *host, status int) {
	s := x.Request.TLS
	if s == nil || !g.requestsCerts {
		return g.hostFor(x, name), 0
	}
	sni, sniName := g.SniHost(x) // before h, because the captures of h's name apply
	h = g.hostFor(x, name)
	if h.Certs != nil {
		if sniName != "" && sniName != name && x.HostHeader != "" {
			return h, http.StatusMisdirectedRequest
		}
		return h, h.Certs.Status(s)
	}
	switch {
	case h.clientAuth == tls.NoClientCert:
	case sni != h:
		return h, http.StatusMisdirectedRequest
	case h.clientAuth == tls.RequireAndVerifyClientCert && len(s.VerifiedChains) == 0,
		h.clientAuth == tls.RequireAnyClientCert && len(s.PeerCertificates) == 0:
		return h, nginxstatus.NoCert
	}
	return h, 0
}

// HostAt returns the Host for a name at a local address, and the one for unknown names there.
func (p *Plan) HostAt(local net.Addr, name string) (host, defaultHost *conf.Host) {
	group := p.Hosts.GroupAt(local)
	host, defaultHost = group.defaultHost.from, group.defaultHost.from
	if folded, ok := hostname.Parse(name); ok {
		host = group.hostFor(&Exchange{Plan: p, Vars: make([]value, p.slots)}, folded).from
	}
	return host, defaultHost
}
