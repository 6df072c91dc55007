package front

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/tarehq/tare/front/upstream"
)

// maxDynamic bounds the groups that are made of addresses in variables. The one that was made first goes first.
const maxDynamicGroups = 256

// group is a group of servers, and connections to them.
type group struct {
	name      string // as a Pass's To names it
	peers     *upstream.Group
	key       text // what Hash goes by
	transport *transport
}

// upstreams makes the groups of the Config that no handler is bound to.
func (c *compiler) upstreams() error {
	c.plan.groups = make(map[string]*group, len(c.config.Upstreams))
	for i := range c.config.Upstreams {
		config := &c.config.Upstreams[i]
		if c.boundTo(config.Name) != nil {
			continue
		}
		if c.plan.groups[strings.ToLower(config.Name)] != nil {
			return withPos(config.Pos, fmt.Errorf("there are two upstreams %q", config.Name))
		}
		if _, err := c.serverGroup(config); err != nil {
			return withPos(config.Pos, fmt.Errorf("upstream %q: %w", config.Name, err))
		}
	}
	return nil
}

// boundTo is the handler that is bound to a name, or nil.
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

// serverGroup makes a group, which knows of its servers what an older plan's did.
func (c *compiler) serverGroup(config *upstream.Config) (*group, error) {
	g := &group{name: config.Name}
	var err error
	if g.key, err = c.text(Text(config.Key)); err != nil {
		return nil, err
	}
	if hashes := config.Balance == upstream.Hash || config.Balance == upstream.ConsistentHash; hashes && g.key.empty() {
		return nil, errors.New("there is nothing to choose a server by: want a Key")
	}
	state, giveBack, err := acquire(&c.state.upstreams, config.Name, func() (*upstream.State, error) { return new(upstream.State), nil }, func(*upstream.State) {})
	if err != nil {
		return nil, err
	}
	c.plan.releases = append(c.plan.releases, giveBack)
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

// target is the group that To names, which may be made of an address.
func (c *compiler) targetGroup(to string) (*group, error) {
	if g := c.plan.groups[strings.ToLower(to)]; g != nil {
		return g, nil
	}
	g, err := c.serverGroup(&upstream.Config{Name: to, Servers: []upstream.Server{{Addr: to}}})
	if err != nil {
		return nil, fmt.Errorf("pass to %q, which is no upstream: %w", to, err)
	}
	return g, nil
}

// group is the group that an address names, with the usual port if it has none, or nil.
func (p *plan) group(to, port string) *group {
	if g := p.groups[strings.ToLower(to)]; g != nil {
		return g
	}
	return p.groups[strings.ToLower(withPort(to, port))]
}

// withPort is an address with a port.
func withPort(to, port string) string {
	if _, _, err := net.SplitHostPort(to); err != nil && !strings.HasPrefix(to, "unix:") {
		if v6, ok := strings.CutPrefix(to, "["); ok && strings.HasSuffix(v6, "]") {
			to = v6[:len(v6)-1]
		}
		return net.JoinHostPort(to, port)
	}
	return to
}

// dynamic are groups of addresses that variables gave.
type dynamicGroups struct {
	mu     sync.Mutex
	groups map[string]*group
	order  []string // the oldest first
	closed bool
}

var errClosed = errors.New("the configuration is no longer in use")

// group returns the group of an address, which it may have to look up.
func (d *dynamicGroups) group(to, port string) (*group, error) {
	to = withPort(to, port)
	d.mu.Lock()
	g := d.groups[to]
	d.mu.Unlock()
	if g != nil {
		return g, nil
	}
	peers, err := upstream.New(upstream.Config{Name: to, Servers: []upstream.Server{{Addr: to}}}, new(upstream.State), nil)
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

// close ends the use of all groups.
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
