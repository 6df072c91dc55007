package front

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/upstream"
)

const (
	// maxDynamicGroups bounds the groups for addresses from variables. The oldest is dropped first.
	maxDynamicGroups = 256
	// maxDynamicLookups bounds the lookups of their names at the same time. Clients may choose such
	// names: the Resolver must have room for those of upstreams.
	maxDynamicLookups = 128
	// maxDynamicWait bounds how long such a lookup waits for others.
	maxDynamicWait = 30 * time.Second
)

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

	slots chan struct{} // lookups
	find  upstream.Lookup

	mu      sync.Mutex
	groups  map[string]*group
	order   []string // oldest first
	pending map[string]*pendingGroup
	closed  bool
}

// pendingGroup is a group whose name is not resolved yet. The requests for an address share it, and
// so its lookup. Names that do not resolve displace no groups.
type pendingGroup struct {
	group  *group
	users  int // requests
	isKept bool
}

var errClosed = errors.New("the configuration was replaced")

// dynamicGroups returns the groups of a Proxy whose target has variables.
func (c *compiler) dynamicGroups(from *conf.Proxy) (*dynamicGroups, error) {
	key := "system"
	if from.Resolver != nil {
		key = fmt.Sprintf("%+v", *from.Resolver)
	}
	d, release, err := acquire(&c.state.dynamic, key, func() (d *dynamicGroups, err error) {
		d = &dynamicGroups{
			groups: make(map[string]*group), pending: make(map[string]*pendingGroup),
			slots: make(chan struct{}, maxDynamicLookups), find: upstream.SystemLookup,
		}
		d.options, d.resolver, d.releaseResolver, err = c.upstreamOptions(from.Resolver)
		if d.options.Lookup != nil {
			d.find = d.options.Lookup
		}
		d.options.OnDemand, d.options.Lookup = true, d.lookup
		return d, err
	}, (*dynamicGroups).close)
	if err != nil {
		return nil, err
	}
	c.plan.releases = append(c.plan.releases, release)
	c.measureResolver(d.resolver)
	return d, nil
}

// lookup resolves a name, when there is room for that.
func (d *dynamicGroups) lookup(ctx context.Context, host string) ([]netip.Addr, time.Duration, error) {
	waiting, cancel := context.WithTimeout(ctx, maxDynamicWait)
	defer cancel()
	select {
	case d.slots <- struct{}{}:
	case <-waiting.Done():
		return nil, 0, fmt.Errorf("%d lookups are in progress: %w", maxDynamicLookups, waiting.Err())
	}
	defer func() { <-d.slots }()
	return d.find(ctx, host)
}

// group returns the group for an address, whose name is resolved.
func (d *dynamicGroups) group(ctx context.Context, to, port string) (*group, error) {
	to = withPort(to, port)
	g, pending, err := d.acquire(to)
	if err != nil {
		return nil, err
	}
	err = g.peers.Renew(ctx)
	if pending != nil {
		err = d.release(to, pending, err)
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// acquire returns the group for an address. If it is pending, release must follow.
func (d *dynamicGroups) acquire(to string) (*group, *pendingGroup, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, nil, errClosed
	}
	if g := d.groups[to]; g != nil {
		return g, nil, nil
	}
	p := d.pending[to]
	if p == nil {
		peers, err := upstream.New(conf.Upstream{Name: to, Servers: []conf.Server{{Addr: to, Resolve: true}}},
			new(upstream.State), d.options)
		if err != nil {
			return nil, nil, err
		}
		p = &pendingGroup{group: &group{name: to, peers: peers, transport: newTransport(peers.Config())}}
		d.pending[to] = p
	}
	p.users++
	return p.group, p, nil
}

// release ends a request's use of a pending group, with the result of its lookup. The first success
// keeps the group; after failures the last request closes it.
func (d *dynamicGroups) release(to string, p *pendingGroup, err error) error {
	d.mu.Lock()
	var dropped *group
	if p.users--; err == nil && !p.isKept && !d.closed {
		p.isKept, dropped = true, d.keep(to, p.group)
	}
	isUnused := p.users == 0 && !p.isKept
	if (p.isKept || isUnused) && d.pending[to] == p {
		delete(d.pending, to)
	}
	if err == nil && !p.isKept {
		err = errClosed
	}
	d.mu.Unlock()
	if dropped != nil {
		dropped.close()
	}
	if isUnused {
		p.group.close()
	}
	return err
}

// keep adds a group, and returns one to close, or nil. The caller holds mu.
func (d *dynamicGroups) keep(to string, g *group) (dropped *group) {
	if len(d.order) == maxDynamicGroups {
		dropped = d.groups[d.order[0]]
		delete(d.groups, d.order[0])
		d.order = d.order[1:]
	}
	d.groups[to], d.order = g, append(d.order, to)
	return dropped
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
