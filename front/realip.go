package front

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/tarehq/tare/front/conf"
)

// realIP is a RealIP, compiled.
type realIP struct {
	from              networkSet
	header            string // canonical
	isList            bool   // each proxy appends an address
	recursive         bool
	fromProxyProtocol bool // the address comes from the PROXY protocol
}

// clientAddress is the address of the connection's peer, and the client's as trusted proxies report
// it.
type clientAddress struct {
	peer, addr netip.AddrPort // invalid for a unix socket
	loc        *location      // whose rules determined addr
	replaced   bool           // addr is a proxy's report, and final
}

// realIP compiles a RealIP; nil trusts no proxy.
func (c *compiler) realIP(from *conf.RealIP) (*realIP, error) {
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

// findProxyProtocol returns the client's address of the PROXY protocol, if the peer is trusted.
func (f *realIP) findProxyProtocol(peer, source netip.AddrPort) (netip.AddrPort, bool) {
	if _, trusted := f.from.find(peer.Addr()); !trusted || !source.IsValid() {
		return peer, false
	}
	return source, true
}

// find returns the address in the header, if the peer is trusted.
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

// last returns the last address of a list, or with recursive the last one that is not trusted. An
// invalid address ends the search, because anything before it may be forged. more reports
// whether all of the list is trusted.
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

// parseAddr parses an address with an optional port. With a port an IPv6 address must have
// brackets, and without one it must not.
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

// peerPort returns the port in a Request.RemoteAddr. ok is false for a form that is not usual.
func peerPort(addr string) (port string, ok bool) {
	if addr == "" || addr[0] < '0' || addr[0] > '9' {
		return "", false
	}
	port = addr[strings.LastIndexByte(addr, ':')+1:]
	return port, len(port) < len(addr) && port != "" && port[0] != '0'
}

// peerHost returns the address in a Request.RemoteAddr.
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
