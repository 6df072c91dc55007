package core

import (
	"crypto/tls"
	"net"
	"net/http"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/hostname"
	"github.com/tarehq/tare/front/internal/nginxstatus"
)

// sniHost is the host of a connection's TLS handshake.
type sniHost struct {
	Host *host
	name string // the SNI name; empty if host is the address's default
}

// SniHost returns the host of the request's TLS handshake.
func (g *hostGroup) SniHost(x *Exchange) sniHost {
	if !g.isSingle {
		if name, ok := hostname.Parse(x.Request.TLS.ServerName); ok && name != "" {
			if h := g.lookup(x, name); h != nil {
				return sniHost{h, name}
			}
		}
	}
	return sniHost{Host: g.defaultHost}
}

// selectHost returns the host of a request, and a status if the connection does not satisfy the
// host. A client must not avoid a required certificate by naming one host in the handshake and
// another in the request. A connection may also be older than the current Config.
func (g *hostGroup) selectHost(x *Exchange, name string) (h *host, status int) {
	s := x.Request.TLS
	if s == nil || !g.requestsCerts {
		return g.hostFor(x, name), 0
	}
	to := g.SniHost(x) // before h, because the captures of h's name apply
	h = g.hostFor(x, name)
	if h.Certs != nil {
		if to.name != "" && to.name != name && x.HostHeader != "" {
			return h, http.StatusMisdirectedRequest
		}
		return h, h.Certs.Status(s)
	}
	switch {
	case h.clientAuth == tls.NoClientCert:
	case to.Host != h:
		return h, http.StatusMisdirectedRequest
	case h.clientAuth == tls.RequireAndVerifyClientCert && len(s.VerifiedChains) == 0,
		h.clientAuth == tls.RequireAnyClientCert && len(s.PeerCertificates) == 0:
		return h, nginxstatus.NoCert
	}
	return h, 0
}

// HostAt returns the Host for a name at a local address, and the one for unknown names there.
func (p *Plan) HostAt(local net.Addr, name string) (host, defaultHost *conf.Host) {
	group := p.Hosts.GroupAt(local)
	host, defaultHost = group.defaultHost.from, group.defaultHost.from
	if folded, ok := hostname.Parse(name); ok {
		host = group.hostFor(&Exchange{Plan: p, Vars: make([]value, p.slots)}, folded).from
	}
	return host, defaultHost
}
