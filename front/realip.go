package front

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// realIP is a RealIP, compiled.
type realIP struct {
	from              networkSet
	header            string // canonical
	isList            bool   // addresses are added to its end by each proxy on the way
	recursive         bool
	fromProxyProtocol bool // the header is that of the PROXY protocol
}

// remote is who asked: the peer of the connection, or whom trusted peers speak for.
type clientAddress struct {
	peer, addr netip.AddrPort // invalid for a unix socket
	loc        *location      // by which addr was found
	replaced   bool           // addr is not peer, and stays
}

// realIP compiles a RealIP; nil trusts nobody.
func (c *compiler) realIP(from *RealIP) (*realIP, error) {
	if len(from.From) == 0 && !from.Unix {
		return nil, nil
	}
	out := &realIP{header: http.CanonicalHeaderKey(from.Header), recursive: from.Recursive}
	switch out.header {
	case "":
		out.header = "X-Real-Ip"
	case "Proxy_protocol":
		out.fromProxyProtocol = true
	}
	out.isList = out.header == "X-Forwarded-For"
	for i, p := range from.From {
		out.from.add(p, i)
	}
	if from.Unix {
		out.from.addUnix(len(from.From))
	}
	return out, nil
}

// who is who asked, as far as the host and the location trust those who tell. Once another's word was taken it stays.
func (x *exchange) clientAddress() *clientAddress {
	c := x.address
	if c == nil {
		c = new(clientAddress)
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
		addr, ok = f.findProxyProtocol(c.peer, x.proxyHeader())
	} else {
		addr, ok = f.find(c.peer, x.r.Header)
	}
	if ok {
		c.addr, c.replaced = addr, true
	}
	return ok
}

// findProxied returns the address that the header of the PROXY protocol has, if the peer is trusted.
func (f *realIP) findProxyProtocol(peer netip.AddrPort, h ProxyHeader) (netip.AddrPort, bool) {
	if _, trusted := f.from.find(peer.Addr()); !trusted || !h.Source.IsValid() {
		return peer, false
	}
	return h.Source, true
}

// find returns the address that the header tells, if the peer is trusted.
func (f *realIP) find(peer netip.AddrPort, header http.Header) (netip.AddrPort, bool) {
	values := header[f.header]
	if _, ok := f.from.find(peer.Addr()); !ok || len(values) == 0 {
		return peer, false
	}
	if !f.isList {
		values = values[:1]
	}
	at, found := peer, false
	for i := len(values) - 1; i >= 0; i-- {
		next, ok, more := f.last(at, values[i])
		if !ok {
			break
		}
		if at, found = next, true; !more {
			break
		}
	}
	return at, found
}

// last is the last address of a list, or if that is recursive the last that is not trusted. What is no address ends the list: before
// it anybody may have written anything. more says that all of the list was trusted.
func (f *realIP) last(peer netip.AddrPort, list string) (at netip.AddrPort, found, more bool) {
	at = peer
	for {
		list = strings.TrimRight(list, " ,\t")
		start := strings.LastIndexAny(list, " ,\t") + 1
		next, ok := parseAddr(list[start:])
		if !ok {
			return at, found, false
		}
		at, found, list = next, true, list[:start]
		if _, trusted := f.from.find(at.Addr()); !trusted || !f.recursive {
			return at, true, false
		}
		if list == "" {
			return at, true, true
		}
	}
}

// parseAddr reads an address, with or without a port: that of IPv6 has brackets then, and only then.
func parseAddr(s string) (netip.AddrPort, bool) {
	const longest = len("[0000:0000:0000:0000:0000:ffff:255.255.255.255]:65535")
	if s == "" || len(s) > longest {
		return netip.AddrPort{}, false
	}
	at, err := netip.ParseAddrPort(s)
	if err == nil && at.Port() == 0 {
		return netip.AddrPort{}, false
	}
	if err != nil {
		var addr netip.Addr
		addr, err = netip.ParseAddr(s)
		at = netip.AddrPortFrom(addr, 0)
	}
	return at, err == nil && at.Addr().Zone() == ""
}

// clientAddr is $remote_addr.
func (x *exchange) clientAddr() string {
	if x.address == nil && x.loc != nil && x.loc.realIP == nil && x.host.defaults.realIP == nil {
		return peerHost(x.r.RemoteAddr)
	}
	return addrString(x.clientAddress().addr)
}

// peerHost is the address in what net/http makes of one and a port.
func peerHost(addr string) string {
	colon := strings.LastIndexByte(addr, ':')
	if colon < 1 || addr[0] == '/' || addr[0] == '@' {
		return "unix:"
	}
	host := addr[:colon]
	if host[0] == '[' {
		host, _, _ = strings.Cut(strings.Trim(host, "[]"), "%")
	}
	return host
}

func addrString(a netip.AddrPort) string {
	if !a.IsValid() {
		return "unix:"
	}
	return a.Addr().String()
}

func portString(a netip.AddrPort) string {
	if a.Port() == 0 {
		return ""
	}
	return strconv.Itoa(int(a.Port()))
}

func remoteAddr(x *exchange) string { return x.clientAddr() }
func remotePort(x *exchange) string { return portString(x.clientAddress().addr) }

// binaryRemoteAddr is the address in 4 or 16 bytes, or "unix:".
func binaryRemoteAddr(x *exchange) string {
	if a := x.clientAddress().addr; a.IsValid() {
		return string(a.Addr().AsSlice())
	}
	return "unix:"
}

func realipRemoteAddr(x *exchange) string { return addrString(x.clientAddress().peer) }
func realipRemotePort(x *exchange) string { return portString(x.clientAddress().peer) }
