// Package realip finds the addresses of clients behind trusted proxies.
package realip

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/netset"
)

// Rules is a RealIP, compiled.
type Rules struct {
	From              netset.Set
	Header            string // canonical
	IsList            bool   // each proxy appends an address
	Recursive         bool
	FromProxyProtocol bool // the address comes from the PROXY protocol
}

// New compiles a RealIP; nil trusts no proxy.
func New(from *conf.RealIP) *Rules {
	if len(from.From) == 0 && !from.Unix {
		return nil
	}
	out := &Rules{Header: http.CanonicalHeaderKey(from.Header), Recursive: from.Recursive}
	switch out.Header {
	case "":
		out.Header = "X-Real-Ip"
	case "Proxy_protocol":
		out.FromProxyProtocol = true
	}
	out.IsList = out.Header == "X-Forwarded-For"
	for i, p := range from.From {
		out.From.Add(p, i)
	}
	if from.Unix {
		out.From.AddUnix(len(from.From))
	}
	return out
}

// Trusts reports whether an address is that of a trusted proxy.
func (f *Rules) Trusts(at netip.AddrPort) bool {
	_, ok := f.From.Find(at.Addr())
	return ok
}

// Find returns the address in the header, if the peer is trusted.
func (f *Rules) Find(peer netip.AddrPort, header http.Header) (netip.AddrPort, bool) {
	values := header[f.Header]
	if len(values) == 0 || !f.Trusts(peer) {
		return peer, false
	}
	if !f.IsList {
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
func (f *Rules) last(peer netip.AddrPort, list string) (at netip.AddrPort, found, more bool) {
	at = peer
	for {
		list = strings.TrimRight(list, " ,\t")
		start := strings.LastIndexAny(list, " ,\t") + 1
		next, ok := parseAddr(list[start:])
		if !ok {
			return at, found, false
		}
		at, found, list = next, true, list[:start]
		if !f.Recursive || !f.Trusts(at) {
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

// PeerPort returns the port in a Request.RemoteAddr. ok is false for a form that is not usual.
func PeerPort(addr string) (port string, ok bool) {
	if addr == "" || addr[0] < '0' || addr[0] > '9' {
		return "", false
	}
	port = addr[strings.LastIndexByte(addr, ':')+1:]
	return port, len(port) < len(addr) && port != "" && port[0] != '0'
}

// PeerHost returns the address in a Request.RemoteAddr.
func PeerHost(addr string) string {
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

// AddrString returns an address as text, "unix:" if it is invalid.
func AddrString(a netip.AddrPort) string {
	if !a.IsValid() {
		return "unix:"
	}
	return a.Addr().String()
}

// PortString returns a port as text, "" if it is 0.
func PortString(a netip.AddrPort) string {
	if a.Port() == 0 {
		return ""
	}
	return strconv.Itoa(int(a.Port()))
}
