package proxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
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

// upstreamOptions returns the options of groups whose names a Resolver resolves; nil is the
// system's. Plans with the same Resolver share its DNS client.
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
		func() (*dns.Resolver, error) { return newResolver(from) }, (*dns.Resolver).Close)
	if err != nil {
		return o, fmt.Errorf("resolver: %w", err)
	}
	o.Lookup, o.FailureInterval = r.Lookup, from.Timeout // as in nginx
	return o, nil
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
