package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/exposition"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/internal/upstream"
	"github.com/tarehq/tare/internal/dns"
)

const (
	// dnsPort is the port of DNS servers without one.
	dnsPort = "53"
	// maxResolverLookup limits the time to resolve the names of DNS servers.
	maxResolverLookup = 5 * time.Second
)

// sharedResolver is a DNS client that plans with the same settings share.
type sharedResolver struct {
	client *dns.Resolver
	zone   string

	succeeded, unknown, failed atomic.Int64 // lookups
}

// upstreamOptions returns the options of groups whose names a Resolver resolves; nil is the
// system's. The Resolver is shared, and shows its lookups in metrics.
func upstreamOptions(c *core.Compiler, from *conf.Resolver) (o upstream.Options, err error) {
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
		return o, nil
	}
	r, err := core.AcquireForPlan(c, &c.State.Resolvers, fmt.Sprintf("%+v", *from),
		func() (*sharedResolver, error) { return newResolver(from) }, func(r *sharedResolver) { r.client.Close() })
	if err != nil {
		return o, fmt.Errorf("resolver: %w", err)
	}
	o.Lookup, o.FailureInterval = r.lookup, from.Timeout // as in nginx
	if r.zone != "" && c.Counting() {
		_, _ = core.Shared(c, r, func() (*sharedResolver, error) {
			c.Plan.Measures = append(c.Plan.Measures, r.measure)
			return r, nil
		})
	}
	return o, nil
}

func newResolver(from *conf.Resolver) (*sharedResolver, error) {
	config := dns.Config{Valid: from.Valid, NoIPv4: from.NoIPv4, NoIPv6: from.NoIPv6, Timeout: from.Timeout}
	for _, addr := range from.Servers {
		servers, err := dnsServers(addr)
		if err != nil {
			return nil, err
		}
		config.Servers = append(config.Servers, servers...)
	}
	client, err := dns.New(config)
	return &sharedResolver{client: client, zone: from.StatusZone}, err
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

// lookup is the Lookup of groups.
func (r *sharedResolver) lookup(ctx context.Context, host string) ([]netip.Addr, time.Duration, error) {
	ips, valid, err := r.client.Lookup(ctx, host)
	var unknown *net.DNSError
	switch {
	case err == nil:
		r.succeeded.Add(1)
	case errors.As(err, &unknown) && unknown.IsNotFound:
		r.unknown.Add(1)
	default:
		r.failed.Add(1)
	}
	return ips, valid, err
}

func (r *sharedResolver) measure(e *exposition.Page) {
	const help = "Lookups of names, by their result."
	add := func(n *atomic.Int64, result string) {
		e.Add("tare_resolver_lookups_total", exposition.Counter, help, n.Load(), "zone", r.zone, "result", result)
	}
	add(&r.succeeded, "success")
	add(&r.unknown, "unknown")
	add(&r.failed, "failure")
}
