package front

import (
	"crypto/tls"
	"net"
	"net/http"
)

// HostAt finds the Host that answers requests which come to a local address for a name, as the Config that holds now has it: TLS asks for
// that before there is a request. It is one of the Config's Hosts; nil if none listens there, or the Handler was closed.
func (h *Handler) HostAt(local net.Addr, name string) *Host {
	p := h.enter()
	if p == nil {
		return nil
	}
	defer p.leave()
	group := p.hosts.groupAt(local)
	folded, ok := hostName(name)
	if !ok {
		return group.defaultHost.from
	}
	return group.hostFor(&exchange{plan: p, vars: make([]value, p.slots)}, folded).from
}

// DefaultAt finds the Host that answers, at a local address, what no other is meant by; nil if none listens there, or the Handler was closed.
func (h *Handler) DefaultAt(local net.Addr) *Host {
	p := h.enter()
	if p == nil {
		return nil
	}
	defer p.leave()
	return p.hosts.groupAt(local).defaultHost.from
}

// greeting is the host whose handshake a connection has had.
type sniHost struct {
	host *host
	name string // by which the client found it; empty if that is the address's default
}

// greeted finds the host that the client named in the handshake.
func (g *hostGroup) sniHost(x *exchange) sniHost {
	if !g.isSingle {
		if name, ok := hostName(x.r.TLS.ServerName); ok && name != "" {
			if h := g.lookup(x, name); h != nil {
				return sniHost{h, name}
			}
		}
	}
	return sniHost{host: g.defaultHost}
}

// choose finds the host of a request, and the status of one that comes by a connection which the host does not serve: by naming one
// host in the handshake and another in the request a client does not get past the certificate that it needs. A connection may also be
// older than what the Config wants now.
func (g *hostGroup) selectHost(x *exchange, name string) (h *host, status int) {
	s := x.r.TLS
	if s == nil || !g.asksForCerts {
		return g.hostFor(x, name), 0
	}
	to := g.sniHost(x) // before the host, whose captures count
	h = g.hostFor(x, name)
	if h.certs != nil {
		if to.name != "" && to.name != name && x.hostHeader != "" {
			return h, http.StatusMisdirectedRequest
		}
		return h, h.certs.status(s)
	}
	switch {
	case h.clientAuth == tls.NoClientCert:
	case to.host != h:
		return h, http.StatusMisdirectedRequest
	case h.clientAuth == tls.RequireAndVerifyClientCert && len(s.VerifiedChains) == 0, h.clientAuth == tls.RequireAnyClientCert && len(s.PeerCertificates) == 0:
		return h, statusNoCert
	}
	return h, 0
}
