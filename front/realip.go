package front

import (
	"net/netip"
)

// clientAddress is the address of the connection's peer, and the client's as trusted proxies report
// it.
type clientAddress struct {
	peer, addr netip.AddrPort // invalid for a unix socket
	loc        *location      // whose rules determined addr
	replaced   bool           // addr is a proxy's report, and final
}

// clientAddress returns the client's address by the rules of the host and the location. The first
// report of a trusted proxy is final.
func (x *exchange) clientAddress() *clientAddress {
	c := x.address
	if c == nil {
		c = &x.ownAddress
		x.address = c
		if a, err := netip.ParseAddrPort(x.r.RemoteAddr); err == nil {
			c.peer = netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
		}
		c.addr = c.peer
	}
	if x.loc != nil && x.loc != c.loc && !c.replaced {
		c.loc = x.loc
		if !c.update(x, x.host.defaults.realIP) {
			c.update(x, x.loc.realIP)
		}
	}
	return c
}

func (c *clientAddress) update(x *exchange, f *realIP) bool {
	if f == nil {
		return false
	}
	var addr netip.AddrPort
	var ok bool
	if f.fromProxyProtocol {
		addr, ok = f.findProxyProtocol(c.peer, x.proxySource())
	} else {
		addr, ok = f.find(c.peer, x.r.Header)
	}
	if ok {
		c.addr, c.replaced = addr, true
	}
	return ok
}

// clientAddr is $remote_addr.
func (x *exchange) clientAddr() string {
	if x.hasPeerAddress() {
		return peerHost(x.r.RemoteAddr)
	}
	return addrString(x.clientAddress().addr)
}

// hasPeerAddress reports whether the client's address is certainly that of the connection, so that
// it need not be parsed.
func (x *exchange) hasPeerAddress() bool {
	return x.address == nil && x.loc != nil && x.loc.realIP == nil && x.host.defaults.realIP == nil
}

func remoteAddr(x *exchange) string { return x.clientAddr() }

func remotePort(x *exchange) string {
	if x.hasPeerAddress() {
		if port, ok := peerPort(x.r.RemoteAddr); ok {
			return port
		}
	}
	return portString(x.clientAddress().addr)
}

// binaryRemoteAddr is $binary_remote_addr: 4 or 16 bytes, or "unix:".
func binaryRemoteAddr(x *exchange) string {
	if a := x.clientAddress().addr; a.IsValid() {
		return string(a.Addr().AsSlice())
	}
	return "unix:"
}

func realipRemoteAddr(x *exchange) string { return addrString(x.clientAddress().peer) }
func realipRemotePort(x *exchange) string { return portString(x.clientAddress().peer) }
