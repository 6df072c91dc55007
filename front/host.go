package front

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/hostname"
)

// host is a Host, compiled.
type host struct {
	from        *conf.Host // nil if no Host of the Config
	name        string     // the first one, for $server_name
	pos         string
	steps       []action
	locations   locations
	named       map[string]*location
	defaults    location // for requests in no location
	keepSlashes bool
	fields      fieldNames         // which fields of requests are forwarded
	certs       *clientCerts       // nil leaves client certificates to the server
	clientAuth  tls.ClientAuthType // what the server requires, if certs is nil
	counts      *responseCounts    // nil if nothing shows counts
}

// hosts finds virtual hosts by address and name. Requests for an address that no host listens on,
// because the server has another listener, are for the hosts that listen everywhere. If all hosts
// listen on the same addresses the address does not matter.
type hosts struct {
	any   *hostGroup // for all other addresses
	ports []portGroups
	quic  []portGroups // of UDP
	unix  map[string]*hostGroup
}

// portGroups are the groups of a port.
type portGroups struct {
	port   uint16
	addrs  []addrGroup
	v4, v6 *hostGroup // for * and [::], or nil
}

type addrGroup struct {
	addr  netip.Addr
	group *hostGroup
}

// hostGroup holds the hosts of one address.
type hostGroup struct {
	defaultHost   *host // for unknown names
	hosts         int
	isSingle      bool // names do not matter
	names         *hostname.Map[*host]
	patterns      []hostPattern
	requestsCerts bool // one of the hosts requests client certificates
	connections   connectionRules
}

// connectionRules are properties of an address that its connections must have. After a reload a
// connection may be of another Config, in which its address had others, or was not named.
type connectionRules struct {
	requiresTLS, requiresProxyHeader bool
	ignoresProxyHeader               bool // the address is named without the PROXY protocol
}

// status returns the status of requests on a connection that may not reach the hosts, or 0.
func (c *connectionRules) status(r *http.Request) int {
	switch {
	case c.requiresTLS && r.TLS == nil:
		return statusToHTTPS
	case c.requiresProxyHeader && proxyHeaderOf(r) == nil:
		return http.StatusBadRequest
	}
	return 0
}

type hostPattern struct {
	pattern *pattern
	host    *host
}

// groupOf returns the hosts of the address that a request was received at.
func (h *hosts) groupOf(r *http.Request) *hostGroup {
	if h.ports == nil && h.unix == nil && h.quic == nil {
		return h.any
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return h.groupAt(local)
}

// groupAt returns the hosts of an address.
func (h *hosts) groupAt(local net.Addr) *hostGroup {
	var g *hostGroup
	switch a := local.(type) {
	case *net.TCPAddr:
		g = groupIn(h.ports, a.Port, a.IP, a.Zone)
	case *net.UDPAddr:
		g = groupIn(h.quic, a.Port, a.IP, a.Zone)
	case *net.UnixAddr:
		g = h.unix[a.Name]
	}
	if g == nil {
		g = h.any
	}
	return g
}

// groupIn returns the hosts of an IP address and port, or nil.
func groupIn(ports []portGroups, port int, at net.IP, zone string) *hostGroup {
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

// hostFor returns the host for a name.
func (g *hostGroup) hostFor(x *exchange, name string) *host {
	if h := g.lookup(x, name); h != nil {
		return h
	}
	return g.defaultHost
}

// lookup returns the host with a name, or nil.
func (g *hostGroup) lookup(x *exchange, name string) *host {
	if g.isSingle {
		return g.defaultHost
	}
	if h, ok := g.names.Find(name); ok {
		return h
	}
	for i := range g.patterns {
		if p := &g.patterns[i]; p.pattern.match(x, name) {
			return p.host
		}
	}
	return nil
}
