// Package listenaddr finds what listens at the local address of a connection.
package listenaddr

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/internal/grammar"
)

// Table finds what listens at an address. Requests for an address at which nothing listens,
// because the server has another listener, are for what listens everywhere. If all listens at the
// same addresses the address does not matter.
type Table[G any] struct {
	Any   *G // for all other addresses
	ports []portGroups[G]
	quic  []portGroups[G] // of UDP
	unix  map[string]*G
}

type portGroups[G any] struct {
	port   uint16
	addrs  []addrGroup[G]
	v4, v6 *G // for * and [::], or nil
}

type addrGroup[G any] struct {
	addr  netip.Addr
	group *G
}

// GroupOf returns what listens at the address that a request was received at.
func (h *Table[G]) GroupOf(r *http.Request) *G {
	if h.ports == nil && h.unix == nil && h.quic == nil {
		return h.Any
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return h.GroupAt(local)
}

// GroupAt returns what listens at an address.
func (h *Table[G]) GroupAt(local net.Addr) *G {
	var g *G
	switch a := local.(type) {
	case *net.TCPAddr:
		g = groupIn(h.ports, a.Port, a.IP, a.Zone)
	case *net.UDPAddr:
		g = groupIn(h.quic, a.Port, a.IP, a.Zone)
	case *net.UnixAddr:
		g = h.unix[a.Name]
	}
	if g == nil {
		g = h.Any
	}
	return g
}

// groupIn returns what listens at an IP address and port, or nil.
func groupIn[G any](ports []portGroups[G], port int, at net.IP, zone string) *G {
	for i := range ports {
		p := &ports[i]
		if int(p.port) != port {
			continue
		}
		if p.addrs == nil && p.v6 == nil {
			return p.v4
		}
		ip, _ := netip.AddrFromSlice(at)
		ip = ip.Unmap()
		for _, a := range p.addrs {
			if a.addr.WithZone("") == ip && (a.addr.Zone() == "" || a.addr.Zone() == zone) {
				return a.group
			}
		}
		if p.v6 != nil && (p.v4 == nil || ip.Is6()) {
			return p.v6
		}
		return p.v4
	}
	return nil
}

// Add sets what listens at an address.
func (h *Table[G]) Add(addr string, g *G) error {
	if addr == "" {
		h.Any = g
		return nil
	}
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		if h.unix == nil {
			h.unix = make(map[string]*G)
		}
		h.unix[path] = g
		return nil
	}
	ports, text := &h.ports, addr
	if rest, ok := strings.CutPrefix(addr, grammar.QUICPrefix); ok {
		ports, text = &h.quic, rest
	}
	if strings.HasPrefix(text, "*:") {
		text = "0.0.0.0" + text[1:]
	}
	ap, err := netip.ParseAddrPort(text)
	if err != nil {
		return fmt.Errorf("invalid listen address %q: want IP:PORT, [IPv6]:PORT, *:PORT or unix:PATH, and quic: before ports of UDP",
			addr)
	}
	p := portIn(ports, ap.Port())
	switch ip := ap.Addr().Unmap(); {
	case ip == netip.IPv4Unspecified():
		p.v4 = g
	case ip == netip.IPv6Unspecified():
		p.v6 = g
	default:
		p.addrs = append(p.addrs, addrGroup[G]{ip, g})
	}
	return nil
}

// portIn returns the groups of a port.
func portIn[G any](all *[]portGroups[G], port uint16) *portGroups[G] {
	i := slices.IndexFunc(*all, func(p portGroups[G]) bool { return p.port == port })
	if i < 0 {
		i, *all = len(*all), append(*all, portGroups[G]{port: port})
	}
	return &(*all)[i]
}
