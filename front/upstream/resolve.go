package upstream

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tarehq/tare/front/conf"
)

const (
	// lookupEvery is the interval of resolving names. If that fails, the old addresses stay.
	lookupEvery = 30 * time.Second
	// lookupTime limits the time to resolve a name.
	lookupTime = 5 * time.Second
	// defaultPort is the port of servers without one.
	defaultPort = "80"
)

// Lookup returns the addresses of a name, like net.Resolver.LookupNetIP.
type Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)

// resolver holds the addresses of servers.
type resolver struct {
	lookup Lookup

	mu    sync.Mutex
	hosts []host
}

// host is a server's configured address, and its resolved addresses.
type host struct {
	name, port string // "" if there is nothing to resolve
	addresses  []string
}

// begin parses addresses and resolves all names.
func (r *resolver) begin(servers []conf.Server, lookup Lookup) error {
	if r.lookup = lookup; lookup == nil {
		r.lookup = net.DefaultResolver.LookupNetIP
	}
	r.hosts = make([]host, len(servers))
	for i := range servers {
		h := &r.hosts[i]
		if err := h.parse(servers[i].Addr); err != nil {
			return err
		}
		if h.name == "" {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
		addresses, err := r.find(ctx, h)
		if cancel(); err != nil {
			return fmt.Errorf("host not found in server %q: %w", servers[i].Addr, err)
		}
		h.addresses = addresses
	}
	return nil
}

// parse parses HOST:PORT, HOST or unix:PATH.
func (h *host) parse(addr string) error {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		path = strings.TrimSuffix(path, ":")
		if !strings.HasPrefix(path, "/") {
			return fmt.Errorf("server %q: the path of a unix socket must be absolute", addr)
		}
		h.addresses = []string{path}
		return nil
	}
	name, port, err := net.SplitHostPort(addr)
	if err != nil {
		name, port = strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]"), defaultPort
	}
	if n, err := net.LookupPort("tcp", port); err != nil || n == 0 || strings.Trim(port, "0123456789") != "" {
		return fmt.Errorf("server %q: invalid port %q", addr, port)
	}
	if ip, err := netip.ParseAddr(name); err == nil {
		h.addresses = []string{net.JoinHostPort(ip.String(), port)}
		return nil
	}
	if name == "" || strings.ContainsAny(name, ":/ ") {
		return fmt.Errorf("invalid server %q (must be HOST:PORT, HOST or unix:PATH)", addr)
	}
	h.name, h.port = name, port
	return nil
}

// find resolves a name.
func (r *resolver) find(ctx context.Context, h *host) ([]string, error) {
	ips, err := r.lookup(ctx, "ip", h.name)
	if err != nil {
		return nil, err
	}
	if len(ips) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: h.name, IsNotFound: true}
	}
	for i := range ips {
		ips[i] = ips[i].Unmap()
	}
	slices.SortFunc(ips, netip.Addr.Compare) // resolvers rotate them
	ips = slices.Compact(ips)
	addresses := make([]string, 0, min(len(ips), maxAddresses))
	for _, ip := range ips[:min(len(ips), maxAddresses)] {
		addresses = append(addresses, net.JoinHostPort(ip.String(), h.port))
	}
	return addresses, nil
}

// addresses returns the addresses of the i-th server.
func (r *resolver) addresses(i int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hosts[i].addresses
}

// any reports whether there are names.
func (r *resolver) any() bool {
	return slices.ContainsFunc(r.hosts, func(h host) bool { return h.name != "" })
}

// watch resolves names periodically.
func (g *Group) watch(ctx context.Context) {
	tick := time.NewTicker(lookupEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if g.names.again(ctx) {
			_ = g.rebuild() // with too many addresses the old ones stay
		}
	}
}

// again resolves all names, and reports whether an address has changed.
func (r *resolver) again(ctx context.Context) (changed bool) {
	for i := range r.hosts {
		h := &r.hosts[i]
		if h.name == "" {
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, lookupTime)
		addresses, err := r.find(bounded, h)
		cancel()
		if err != nil || slices.Equal(addresses, h.addresses) {
			continue
		}
		r.mu.Lock()
		h.addresses = addresses
		r.mu.Unlock()
		changed = true
	}
	return changed
}
