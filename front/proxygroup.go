package front

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/upstream"
)

// group is a configured group of servers, and how clients are assigned to them.
type group struct {
	servers *fetch.Group
	key     text            // of the hash balancers
	sticky  *sticky         // nil if clients are not bound to servers
	counts  *responseCounts // nil if nothing shows counts
}

// upstreams are the groups of a plan, by name in lower case, or by address.
type upstreams struct{ groups map[string]*group }

// upstreams makes the groups of the Config, except those that a handler is bound to.
func (c *compiler) upstreams() error {
	u := &upstreams{make(map[string]*group, len(c.config.Upstreams))}
	c.plan.parts = append(c.plan.parts, u)
	c.plan.measures = append(c.plan.measures, u.measure)
	c.plan.prepares = append(c.plan.prepares, u.awaitNames)
	for i := range c.config.Upstreams {
		config := &c.config.Upstreams[i]
		if c.options.boundTo(config.Name) != nil {
			continue
		}
		if u.groups[strings.ToLower(config.Name)] != nil {
			return withPos(config.Pos, fmt.Errorf("duplicate upstream %q", config.Name))
		}
		if _, err := c.serverGroup(config); err != nil {
			return withPos(config.Pos, fmt.Errorf("upstream %q: %w", config.Name, err))
		}
	}
	return nil
}

// maxStartLookup limits how long names of servers with Resolve delay a Config.
const maxStartLookup = 2 * time.Second

// awaitNames waits for the first addresses of all groups together.
func (u *upstreams) awaitNames() {
	ctx, cancel := context.WithTimeout(context.Background(), maxStartLookup)
	defer cancel()
	for _, g := range u.groups {
		g.servers.Peers.Await(ctx)
	}
}

// boundTo returns the handler that is bound to a name, or nil.
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
	g := &group{servers: &fetch.Group{Name: config.Name}, counts: c.upstreamCounts(config.Name)}
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
	if g.servers.Peers, err = upstream.New(*config, state, options); err != nil {
		release()
		return nil, err
	}
	c.measureResolver(resolver)
	c.plan.releases = append(c.plan.releases, g.servers.Peers.Close, release) // lookups end before their resolver
	if g.servers.Transport, err = c.transport(g.servers.Peers.Config()); err != nil {
		return nil, err
	}
	planPart[*upstreams](c.plan).groups[strings.ToLower(config.Name)] = g
	return g, nil
}

// transportKey identifies the transport of a group.
type transportKey struct {
	group     string
	keepAlive fetch.KeepAlive
}

// transport returns the transport of a group. Plans with the same settings share it.
func (c *compiler) transport(config *conf.Upstream) (*fetch.Transport, error) {
	key := transportKey{config.Name, fetch.KeepAliveOf(config)}
	l, release, err := acquire(&c.state.transports, key,
		func() (*fetch.Transport, error) { return fetch.NewTransport(key.keepAlive), nil }, (*fetch.Transport).Close)
	if err == nil {
		c.plan.releases = append(c.plan.releases, release)
	}
	return l, err
}

// targetGroup returns the group that To names, or makes one for the address in To.
func (c *compiler) targetGroup(to string) (*group, error) {
	if g := planPart[*upstreams](c.plan).groups[strings.ToLower(to)]; g != nil {
		return g, nil
	}
	g, err := c.serverGroup(&conf.Upstream{Name: to, Servers: []conf.Server{{Addr: to}}})
	if err != nil {
		return nil, fmt.Errorf("%q is not an upstream: %w", to, err)
	}
	return g, nil
}

// find returns the group for an address, or nil. port is the default.
func (u *upstreams) find(to, port string) *group {
	if g := u.groups[strings.ToLower(to)]; g != nil {
		return g
	}
	return u.groups[strings.ToLower(withPort(to, port))]
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

// dynamicGroups are groups for addresses that come from variables. All Proxies with the same
// Resolver share them, and those of later plans.
type dynamicGroups struct {
	groups          *fetch.Groups
	resolver        *sharedResolver // nil is the system's
	releaseResolver func()
}

// dynamicGroups returns the groups of a Proxy whose target has variables.
func (c *compiler) dynamicGroups(from *conf.Proxy) (*fetch.Groups, error) {
	key := "system"
	if from.Resolver != nil {
		key = fmt.Sprintf("%+v", *from.Resolver)
	}
	d, release, err := acquire(&c.state.dynamic, key, func() (*dynamicGroups, error) {
		options, resolver, releaseResolver, err := c.upstreamOptions(from.Resolver)
		return &dynamicGroups{fetch.NewGroups(options), resolver, releaseResolver}, err
	}, (*dynamicGroups).close)
	if err != nil {
		return nil, err
	}
	c.plan.releases = append(c.plan.releases, release)
	c.measureResolver(d.resolver)
	return d.groups, nil
}

func (d *dynamicGroups) close() {
	d.groups.Close()
	d.releaseResolver()
}
