package load

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"
)

type address struct {
	tcp    netip.AddrPort
	socket string // path of a unix socket; empty for TCP
}

func resolve(ctx context.Context, p *parsedURL, timeout time.Duration) (address, error) {
	if p.socket != "" {
		return address{socket: p.socket}, nil
	}
	port, err := strconv.ParseUint(p.port, 10, 16)
	if err != nil {
		return address{}, badPlan("port %q: want a number up to 65535", p.port)
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
