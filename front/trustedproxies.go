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

// newRealIP compiles a RealIP; nil trusts no proxy.
func newRealIP(from *conf.RealIP) *realIP {
	if len(from.From) == 0 && !from.Unix {
		return nil
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
	return out
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
