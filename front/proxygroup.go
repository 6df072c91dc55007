package front

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/upstream"
)

// maxDynamicGroups bounds the groups for addresses from variables. The oldest is dropped first.
const maxDynamicGroups = 256

// group is a group of servers with its connections.
type group struct {
	name      string // as in a Proxy's To
	peers     *upstream.Group
	key       text    // of the hash balancers
	sticky    *sticky // nil if clients are not bound to servers
	transport *transport
	counts    *responseCounts // nil if nothing shows counts

	lastSocket atomic.Pointer[socketHost]
}

// socketHost is a unix socket, and its name as the host of a URL.
type socketHost struct{ path, host string }

// hostOf is the function hostOf, which makes the name of a socket only once.
func (g *group) hostOf(addr string) string {
	if addr[0] != '/' {
		return addr
	}
	last := g.lastSocket.Load()
	if last == nil || last.path != addr {
		last = &socketHost{addr, hostOf(addr)}
		g.lastSocket.Store(last)
	}
	return last.host
}

// upstreams makes the groups of the Config, except those that a handler is bound to.
func (c *compiler) upstreams() error {
	c.plan.groups = make(map[string]*group, len(c.config.Upstreams))
	for i := range c.config.Upstreams {
		config := &c.config.Upstreams[i]
		if c.boundTo(config.Name) != nil {
			continue
		}
		if c.plan.groups[strings.ToLower(config.Name)] != nil {
			return withPos(config.Pos, fmt.Errorf("duplicate upstream %q", config.Name))
		}
		if _, err := c.serverGroup(config); err != nil {
			return withPos(config.Pos, fmt.Errorf("upstream %q: %w", config.Name, err))
		}
	}
	return nil
}

// boundTo returns the handler that is bound to a name, or nil.
func (c *compiler) boundTo(name string) http.Handler { return c.options.boundTo(name) }

func (o *options) boundTo(name string) http.Handler {
	if h := o.bound[name]; h != nil {
		return h
	}
	for bound, h := range o.bound {
		if strings.EqualFold(bound, name) {
			return h
		}
	}
	return nil
}

// serverGroup makes a group. It shares what older plans know about its servers.
func (c *compiler) serverGroup(config *conf.Upstream) (*group, error) {
	g := &group{name: config.Name, counts: c.upstreamCounts(config.Name)}
	key, err := upstream.Key(&config.Balance)
	if err != nil {
		return nil, err
	}
	if g.key, err = c.text(key); err != nil {
		return nil, err
	}
	if g.sticky, err = c.sticky(config.Sticky); err != nil {
		return nil, err
	}
	state, release, err := acquire(&c.state.upstreams, config.Name,
		func() (*upstream.State, error) { return new(upstream.State), nil }, func(*upstream.State) {})
	if err != nil {
		return nil, err
	}
	c.plan.releases = append(c.plan.releases, release)
	options, resolver, release, err := c.upstreamOptions(config.Resolver)
	if err != nil {
		return nil, err
	}
	if g.peers, err = upstream.New(*config, state, options); err != nil {
		release()
		return nil, err
	}
	c.measureResolver(resolver)
	c.plan.releases = append(c.plan.releases, g.peers.Close, release) // lookups end before their resolver
	if g.transport, err = c.plainTransport(g.peers.Config()); err != nil {
		return nil, err
	}
	c.plan.groups[strings.ToLower(config.Name)] = g
	return g, nil
}

// targetGroup returns the group that To names, or makes one for the address in To.
func (c *compiler) targetGroup(to string) (*group, error) {
	if g := c.plan.groups[strings.ToLower(to)]; g != nil {
		return g, nil
	}
	g, err := c.serverGroup(&conf.Upstream{Name: to, Servers: []conf.Server{{Addr: to}}})
	if err != nil {
		return nil, fmt.Errorf("%q is not an upstream: %w", to, err)
	}
	return g, nil
}

// group returns the group for an address, or nil. port is the default.
func (p *plan) group(to, port string) *group {
	if g := p.groups[strings.ToLower(to)]; g != nil {
		return g
	}
	return p.groups[strings.ToLower(withPort(to, port))]
}

// withPort adds port to an address that has none.
func withPort(to, port string) string {
	if _, _, err := net.SplitHostPort(to); err != nil && !strings.HasPrefix(to, "unix:") {
		if v6, ok := strings.CutPrefix(to, "["); ok && strings.HasSuffix(v6, "]") {
			to = v6[:len(v6)-1]
		}
		return net.JoinHostPort(to, port)
	}
	return to
}

// dynamicGroups holds groups for addresses that come from variables. Requests resolve their names,
// whenever the addresses have expired. All Proxies with the same Resolver share them, and those of
// later plans.
type dynamicGroups struct {
	options         upstream.Options
	resolver        *sharedResolver // nil is the system's
	releaseResolver func()

	mu     sync.Mutex
	groups map[string]*group
	order  []string // oldest first
	closed bool
}

var errClosed = errors.New("the configuration was replaced")

// dynamicGroups returns the groups of a Proxy whose target has variables.
func (c *compiler) dynamicGroups(from *conf.Proxy) (*dynamicGroups, error) {
	key := "system"
	if from.Resolver != nil {
		key = fmt.Sprintf("%+v", *from.Resolver)
	}
	d, release, err := acquire(&c.state.dynamic, key, func() (d *dynamicGroups, err error) {
		d = new(dynamicGroups)
		d.options, d.resolver, d.releaseResolver, err = c.upstreamOptions(from.Resolver)
		d.options.OnDemand = true
		return d, err
	}, (*dynamicGroups).close)
	if err != nil {
		return nil, err
	}
	c.plan.releases = append(c.plan.releases, release)
	c.measureResolver(d.resolver)
	return d, nil
}

// group returns the group for an address, whose name is resolved.
func (d *dynamicGroups) group(ctx context.Context, to, port string) (*group, error) {
	to = withPort(to, port)
	d.mu.Lock()
	g := d.groups[to]
	d.mu.Unlock()
	if g != nil {
		if err := g.peers.Renew(ctx); err != nil {
			return nil, err
		}
		return g, nil
	}
	peers, err := upstream.New(conf.Upstream{Name: to, Servers: []conf.Server{{Addr: to, Resolve: true}}},
		new(upstream.State), d.options)
	if err != nil {
		return nil, err
	}
	if err := peers.Renew(ctx); err != nil { // names that do not resolve must not displace others
		peers.Close()
		return nil, err
	}
	made := &group{name: to, peers: peers, transport: newTransport(peers.Config())}
	kept, dropped := d.keep(to, made)
	if dropped != nil {
		dropped.close()
	}
	if kept == nil {
		return nil, errClosed
	}
	return kept, nil
}

// keep adds a group, unless there is one for the address. It returns the one to use, and one to
// close.
func (d *dynamicGroups) keep(to string, made *group) (kept, dropped *group) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, made
	}
	if g := d.groups[to]; g != nil {
		return g, made
	}
	if len(d.order) == maxDynamicGroups {
		dropped = d.groups[d.order[0]]
		delete(d.groups, d.order[0])
		d.order = d.order[1:]
	}
	if d.groups == nil {
		d.groups = make(map[string]*group)
	}
	d.groups[to], d.order = made, append(d.order, to)
	return made, dropped
}

// close closes all groups. Later calls of group fail.
func (d *dynamicGroups) close() {
	d.mu.Lock()
	d.closed = true
	groups := d.groups
	d.groups = nil
	d.mu.Unlock()
	for _, g := range groups { // which may wait for a lookup
		g.close()
	}
	d.releaseResolver()
}

func (g *group) close() {
	g.peers.Close()
	g.transport.close()
}
