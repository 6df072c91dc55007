package proxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/internal/upstream"
	"github.com/tarehq/tare/internal/dns"
)

// upstreamGroup is a configured group of servers, and how clients are assigned to them.
type upstreamGroup struct {
	servers *fetch.Servers
	key     core.Text            // of the hash balancers
	sticky  *sticky              // nil if clients are not bound to servers
	counts  *core.ResponseCounts // nil if nothing shows counts
}

// upstreams are the groups of a plan, by name in lower case, or by address.
type upstreams map[string]*upstreamGroup

// compileUpstreams makes the groups of the Config, except those that a handler is bound to.
func compileUpstreams(c *core.Compiler) {
	u := make(upstreams, len(c.Config.Upstreams))
	c.Plan.Parts = append(c.Plan.Parts, u)
	c.Plan.Measures = append(c.Plan.Measures, u.measure)
	c.Plan.Prepares = append(c.Plan.Prepares, u.awaitNames)
	for i := range c.Config.Upstreams {
		config := &c.Config.Upstreams[i]
		if boundTo(c.Options, config.Name) != nil {
			continue
		}
		c.At(config.Pos, func() {
			if u.find(config.Name) != nil {
				c.Failf("duplicate upstream %q", config.Name)
			}
			serverGroup(c, fmt.Sprintf("upstream %q", config.Name), config)
		})
	}
}

// maxStartLookup limits how long names of servers with Resolve delay a Config.
const maxStartLookup = 2 * time.Second

// awaitNames waits for the first addresses of all groups together.
func (u upstreams) awaitNames() {
	ctx, cancel := context.WithTimeout(context.Background(), maxStartLookup)
	defer cancel()
	for _, g := range u {
		g.servers.Peers.Await(ctx)
	}
}

func boundTo(o *core.Options, name string) http.Handler {
	if h := o.Bound[name]; h != nil {
		return h
	}
	for bound, h := range o.Bound {
		if strings.EqualFold(bound, name) {
			return h
		}
	}
	return nil
}

// serverGroup makes a group. It shares what older plans know about its servers. what precedes errors.
func serverGroup(c *core.Compiler, what string, config *conf.Upstream) *upstreamGroup {
	g := &upstreamGroup{servers: &fetch.Servers{Name: config.Name}}
	g.counts = c.CountResponses("upstream", strings.ToLower(config.Name),
		core.Metric{Name: "tare_upstream_responses_total",
			Help: "Responses of an upstream, by class of the status; none are attempts without a response."},
		core.Metric{Name: "tare_upstream_header_seconds",
			Help: "Times until the head of an upstream's response arrived."})
	g.sticky = compileSticky(c, what, config.Sticky)
	state, err := core.AcquireForPlan(c, &c.State.Upstreams, config.Name,
		func() (*upstream.State, error) { return new(upstream.State), nil }, func(*upstream.State) {})
	c.Check(what, err)
	g.servers.Peers, err = upstream.New(*config, state, upstreamOptions(c, what, config.Resolver))
	c.Check(what, err)
	c.Plan.Releases = append(c.Plan.Releases, g.servers.Peers.Close)
	g.key = c.Text("upstream "+config.Name, g.servers.Peers.Key())
	transport := transportKey{config.Name, fetch.KeepAliveOf(g.servers.Peers.Config())}
	g.servers.Transport, err = core.AcquireForPlan(c, &c.State.Transports, transport,
		func() (*fetch.Transport, error) { return fetch.NewTransport(transport.keepAlive, nil), nil },
		(*fetch.Transport).Close)
	c.Check(what, err)
	core.PlanPart[upstreams](c.Plan)[strings.ToLower(config.Name)] = g
	return g
}

// transportKey identifies a transport. Plans with the same settings share it.
type transportKey struct {
	group     string
	keepAlive fetch.KeepAlive
}

// targetGroup returns the group that To names, or makes one for the address in To.
func targetGroup(c *core.Compiler, to string) *upstreamGroup {
	if g := core.PlanPart[upstreams](c.Plan).find(to); g != nil {
		return g
	}
	return serverGroup(c, fmt.Sprintf("proxy: %q is not an upstream", to),
		&conf.Upstream{Name: to, Servers: []conf.Server{{Addr: to}}})
}

// find returns the group with a name or an address, or nil.
func (u upstreams) find(to string) *upstreamGroup { return u[strings.ToLower(to)] }

// compileDynamicGroups returns the groups of a Proxy whose target has variables. All Proxies with
// the same Resolver share them, and those of later plans.
func compileDynamicGroups(c *core.Compiler, from *conf.Proxy) *fetch.Groups {
	options := upstreamOptions(c, "proxy", from.Resolver)
	groups, err := core.AcquireForPlan(c, &c.State.Dynamic, fmt.Sprintf("%+v", from.Resolver),
		func() (*fetch.Groups, error) { return fetch.NewGroups(options), nil }, (*fetch.Groups).Close)
	c.Check("proxy", err)
	return groups
}

const (
	// dnsPort is the port of DNS servers without one.
	dnsPort = "53"
	// maxResolverLookup limits the time to resolve the names of DNS servers.
	maxResolverLookup = 5 * time.Second
)

// upstreamOptions returns the options of groups whose names a Resolver resolves; nil is the
// system's. Plans with the same Resolver share its DNS client.
func upstreamOptions(c *core.Compiler, what string, from *conf.Resolver) (o upstream.Options) {
	logger := c.Options.Logger()
	o.Report = func(name string, hasAddresses bool, err error) {
		switch {
		case err == nil:
			logger.Printf("upstream: %s can be resolved again", name)
		case hasAddresses:
			logger.Printf("upstream: cannot resolve %s, its old addresses stay in use: %v", name, err)
		default:
			logger.Printf("upstream: cannot resolve %s, it has no addresses: %v", name, err)
		}
	}
	if from == nil {
		return o
	}
	r, err := core.AcquireForPlan(c, &c.State.Resolvers, fmt.Sprintf("%+v", *from),
		func() (*dns.Resolver, error) { return newResolver(from) }, (*dns.Resolver).Close)
	c.Check(what+": resolver", err)
	o.Lookup, o.FailureInterval = r.Lookup, from.Timeout // as in nginx
	return o
}

func newResolver(from *conf.Resolver) (*dns.Resolver, error) {
	config := dns.Config{Valid: from.Valid, NoIPv4: from.NoIPv4, NoIPv6: from.NoIPv6, Timeout: from.Timeout}
	for _, addr := range from.Servers {
		servers, err := dnsServers(addr)
		if err != nil {
			return nil, err
		}
		config.Servers = append(config.Servers, servers...)
	}
	return dns.New(config)
}

// dnsServers returns the addresses of a DNS server: HOST:PORT or HOST.
func dnsServers(addr string) ([]netip.AddrPort, error) {
	host, text := grammar.SplitPort(addr, dnsPort)
	port, err := grammar.ParsePort(text)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", addr, err)
	}
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(ip, port)}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxResolverLookup)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("host not found: %w", err)
	}
	all := make([]netip.AddrPort, 0, len(ips))
	for _, ip := range ips {
		all = append(all, netip.AddrPortFrom(ip.Unmap(), port))
	}
	return all, nil
}
