package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/upstream"
)

const (
	// maxDynamicGroups bounds the groups for addresses from variables.
	maxDynamicGroups = 256
	// maxDynamicLookups bounds the lookups of their names at the same time. Clients may choose such
	// names: the Resolver must have room for those of upstreams.
	maxDynamicLookups = 128
	// maxDynamicWait bounds how long such a lookup waits for others.
	maxDynamicWait = 30 * time.Second
)

// Groups holds groups of addresses that are known only with a request. Requests resolve their
// names, whenever the addresses have expired.
type Groups struct {
	options upstream.Options

	slots chan struct{} // lookups
	find  upstream.Lookup

	mu      sync.Mutex
	groups  *simplelru.LRU[string, *Servers]
	pending map[string]*pendingGroup
	closed  bool
}

// pendingGroup is a group whose name is not resolved yet. The requests for an address share it, and
// so its lookup. Names that do not resolve displace no groups.
type pendingGroup struct {
	group  *Servers
	users  int // requests
	isKept bool
}

// ErrClosed is returned by Groups that are closed.
var ErrClosed = errors.New("the configuration was replaced")

// NewGroups makes Groups whose names are resolved with options.
func NewGroups(o upstream.Options) *Groups {
	d := &Groups{
		options: o, pending: make(map[string]*pendingGroup),
		slots: make(chan struct{}, maxDynamicLookups), find: upstream.SystemLookup,
	}
	d.groups, _ = simplelru.NewLRU[string, *Servers](maxDynamicGroups, nil)
	if o.Lookup != nil {
		d.find = o.Lookup
	}
	d.options.OnDemand, d.options.Lookup = true, d.lookup
	return d
}

// lookup resolves a name, when there is room for that.
func (d *Groups) lookup(ctx context.Context, host string) ([]netip.Addr, time.Duration, error) {
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

// Servers returns the servers at an address HOST:PORT or unix:PATH, whose name is resolved. The case
// of names does not matter.
func (d *Groups) Servers(ctx context.Context, to string) (*Servers, error) {
	if !strings.HasPrefix(to, "unix:") {
		to = strings.ToLower(to)
	}
	g, pending, err := d.acquire(to)
	if err != nil {
		return nil, err
	}
	err = g.Peers.Renew(ctx)
	if pending != nil {
		err = d.release(to, pending, err)
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// acquire returns the group for an address. If it is pending, release must follow.
func (d *Groups) acquire(to string) (*Servers, *pendingGroup, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, nil, ErrClosed
	}
	if g, ok := d.groups.Get(to); ok {
		return g, nil, nil
	}
	p := d.pending[to]
	if p == nil {
		peers, err := upstream.New(conf.Upstream{Name: to, Servers: []conf.Server{{Addr: to, Resolve: true}}},
			new(upstream.State), d.options)
		if err != nil {
			return nil, nil, err
		}
		transport := NewTransport(KeepAliveOf(peers.Config()), nil)
		p = &pendingGroup{group: &Servers{Name: to, Peers: peers, Transport: transport}}
		d.pending[to] = p
	}
	p.users++
	return p.group, p, nil
}

// release ends a request's use of a pending group, with the result of its lookup. The first success
// keeps the group; after failures the last request closes it.
func (d *Groups) release(to string, p *pendingGroup, err error) error {
	d.mu.Lock()
	var dropped *Servers
	if p.users--; err == nil && !p.isKept && !d.closed {
		p.isKept = true
		if d.groups.Len() == maxDynamicGroups {
			_, dropped, _ = d.groups.RemoveOldest()
		}
		d.groups.Add(to, p.group)
	}
	isUnused := p.users == 0 && !p.isKept
	if (p.isKept || isUnused) && d.pending[to] == p {
		delete(d.pending, to)
	}
	if err == nil && !p.isKept {
		err = ErrClosed
	}
	d.mu.Unlock()
	if dropped != nil {
		dropped.Close()
	}
	if isUnused {
		p.group.Close()
	}
	return err
}

// Close closes all groups. Later calls of Servers fail.
func (d *Groups) Close() {
	d.mu.Lock()
	d.closed = true
	groups := d.groups.Values()
	d.groups.Purge()
	d.mu.Unlock()
	for _, g := range groups { // which may wait for a lookup
		g.Close()
	}
}
