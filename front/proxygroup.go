package front

import (
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
	key       text // of the hash balancers
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
	var err error
	if g.key, err = c.text(config.Key); err != nil {
		return nil, err
	}
	if hashes := config.Balance == conf.Hash || config.Balance == conf.ConsistentHash; hashes && g.key.empty() {
		return nil, errors.New("hash requires a Key")
	}
	state, release, err := acquire(&c.state.upstreams, config.Name,
		func() (*upstream.State, error) { return new(upstream.State), nil }, func(*upstream.State) {})
	if err != nil {
		return nil, err
	}
	c.plan.releases = append(c.plan.releases, release)
	if g.peers, err = upstream.New(*config, state, nil); err != nil {
		return nil, err
	}
	c.plan.releases = append(c.plan.releases, g.peers.Close)
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

// dynamicGroups holds groups for addresses that come from variables.
type dynamicGroups struct {
	mu     sync.Mutex
	groups map[string]*group
	order  []string // oldest first
	closed bool
}

var errClosed = errors.New("the configuration was replaced")

// group returns the group for an address, and resolves its name if it is new.
func (d *dynamicGroups) group(to, port string) (*group, error) {
	to = withPort(to, port)
	d.mu.Lock()
	g := d.groups[to]
	d.mu.Unlock()
	if g != nil {
		return g, nil
	}
	peers, err := upstream.New(conf.Upstream{Name: to, Servers: []conf.Server{{Addr: to}}}, new(upstream.State),
		nil)
	if err != nil {
		return nil, err
	}
	made := &group{name: to, peers: peers, transport: newTransport(peers.Config())}
	d.mu.Lock()
	defer d.mu.Unlock()
	if g = d.groups[to]; g != nil || d.closed {
		made.close()
		if d.closed {
			return nil, errClosed
		}
		return g, nil
	}
	if len(d.order) == maxDynamicGroups {
		d.groups[d.order[0]].close()
		delete(d.groups, d.order[0])
		d.order = d.order[1:]
	}
	if d.groups == nil {
		d.groups = make(map[string]*group)
	}
	d.groups[to], d.order = made, append(d.order, to)
	return made, nil
}

// close closes all groups. Later calls of group fail.
func (d *dynamicGroups) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, g := range d.groups {
		g.close()
	}
}

func (g *group) close() {
	g.peers.Close()
	g.transport.close()
}
