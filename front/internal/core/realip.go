package core

import (
	"net/netip"

	"github.com/tarehq/tare/front/internal/realip"
)

// clientAddress is the address of the connection's peer, and the client's as trusted proxies report
// it.
type clientAddress struct {
	peer, Addr netip.AddrPort // invalid for a unix socket
	loc        *Location      // whose rules determined addr
	replaced   bool           // addr is a proxy's report, and final
}

// ClientAddress returns the client's address by the rules of the host and the location. The first
// report of a trusted proxy is final.
func (x *Exchange) ClientAddress() *clientAddress {
	c := x.Address
	if c == nil {
		c = &x.OwnAddress
		x.Address = c
		if a, err := netip.ParseAddrPort(x.Request.RemoteAddr); err == nil {
			c.peer = netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
		}
		c.Addr = c.peer
	}
	if x.Loc != nil && x.Loc != c.loc && !c.replaced {
		c.loc = x.Loc
		if !c.update(x, x.Host.defaults.realIP) {
			c.update(x, x.Loc.realIP)
		}
	}
	return c
}

func (c *clientAddress) update(x *Exchange, f *realip.Rules) bool {
	if f == nil {
		return false
	}
	var addr netip.AddrPort
	var ok bool
	if f.FromProxyProtocol {
		addr, ok = f.FindProxyProtocol(c.peer, x.proxySource())
	} else {
		addr, ok = f.Find(c.peer, x.Request.Header)
	}
	if ok {
		c.Addr, c.replaced = addr, true
	}
	return ok
}

// ClientAddr is $remote_addr.
func (x *Exchange) ClientAddr() string {
	if x.hasPeerAddress() {
		return realip.PeerHost(x.Request.RemoteAddr)
	}
	return realip.AddrString(x.ClientAddress().Addr)
}

// hasPeerAddress reports whether the client's address is certainly that of the connection, so that
// it need not be parsed.
func (x *Exchange) hasPeerAddress() bool {
	return x.Address == nil && x.Loc != nil && x.Loc.realIP == nil && x.Host.defaults.realIP == nil
}

func remotePort(x *Exchange) string {
	if x.hasPeerAddress() {
		if port, ok := realip.PeerPort(x.Request.RemoteAddr); ok {
			return port
		}
	}
	return realip.PortString(x.ClientAddress().Addr)
}

// binaryRemoteAddr is $binary_remote_addr: 4 or 16 bytes, or "unix:".
func binaryRemoteAddr(x *Exchange) string {
	if a := x.ClientAddress().Addr; a.IsValid() {
		return string(a.Addr().AsSlice())
	}
	return "unix:"
}

func realipRemoteAddr(x *Exchange) string { return realip.AddrString(x.ClientAddress().peer) }
func realipRemotePort(x *Exchange) string { return realip.PortString(x.ClientAddress().peer) }
