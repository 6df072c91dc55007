package load

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

type address struct {
	tcp    netip.AddrPort
	socket string // path of a unix socket; empty for TCP
}

// resolve returns the address of a URL. The Plan's Resolve takes precedence over DNS.
func resolve(ctx context.Context, p *parsedURL, given []string, timeout time.Duration) (address, error) {
	if p.socket != "" {
		return address{socket: p.socket}, nil
	}
	port, err := strconv.ParseUint(p.port, 10, 16)
	if err != nil {
		return address{}, badPlan("port %q: want a number up to 65535", p.port)
	}
	for _, line := range given {
		addr, matches, err := parseResolve(line, p)
		if err != nil {
			return address{}, err
		}
		if matches {
			return address{tcp: netip.AddrPortFrom(addr, uint16(port))}, nil
		}
	}
	if addr, err := netip.ParseAddr(p.name); err == nil {
		return address{tcp: netip.AddrPortFrom(addr, uint16(port))}, nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", p.name)
	if err != nil {
		return address{}, fmt.Errorf("load: %w", err)
	}
	var all []netip.AddrPort
	for _, addr := range addrs {
		all = append(all, netip.AddrPortFrom(addr.Unmap(), uint16(port)))
	}
	return address{tcp: firstReachable(ctx, all, timeout)}, nil
}

// parseResolve parses "host:port:address" and reports whether it matches the URL. The host "*"
// matches all.
func parseResolve(line string, p *parsedURL) (addr netip.Addr, matches bool, err error) {
	host, rest, _ := strings.Cut(line, ":")
	port, text, ok := strings.Cut(rest, ":")
	addr, err = netip.ParseAddr(strings.Trim(text, "[]"))
	if _, bad := strconv.ParseUint(port, 10, 16); !ok || err != nil || bad != nil || host == "" {
		return addr, false, badPlan("resolve %q: want host:port:address, as in example.com:443:127.0.0.1", line)
	}
	return addr, port == p.port && (host == "*" || strings.EqualFold(host, p.name)), nil
}

// firstReachable returns the first address that accepts a connection, or else the first of all. A
// name such as localhost often has two addresses while the server listens on one.
func firstReachable(ctx context.Context, all []netip.AddrPort, timeout time.Duration) netip.AddrPort {
	if len(all) == 1 {
		return all[0]
	}
	dialer := net.Dialer{Timeout: timeout}
	for _, to := range all {
		if c, err := dialer.DialContext(ctx, "tcp", to.String()); err == nil {
			_ = c.Close()
			return to
		}
	}
	return all[0]
}
