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
	group := p.hosts.at(local)
	folded, ok := hostName(name)
	if !ok {
		return group.standard.from
	}
	return group.named(&exchange{plan: p, vars: make([]value, p.slots)}, folded).from
}

// DefaultAt finds the Host that answers, at a local address, what no other is meant by; nil if none listens there, or the Handler was closed.
func (h *Handler) DefaultAt(local net.Addr) *Host {
	p := h.enter()
	if p == nil {
		return nil
	}
	defer p.leave()
	return p.hosts.at(local).standard.from
}

// greeted is the host whose handshake the connection of a request has had, nil if it makes no difference.
func (g *hostGroup) greeted(x *exchange) *host {
	if !g.verifies || x.r.TLS == nil {
		return nil
	}
	name, ok := hostName(x.r.TLS.ServerName)
	if !ok {
		return g.standard
	}
	return g.named(x, name)
}

// refuses returns the status of a request that comes over a connection on which the client was not asked for the certificate that the host
// wants, 0 if all is well: by naming one host in the handshake and another in the request nobody gets past the check. A connection
// may also be older than what the Config asks for now.
func (h *host) refuses(greeted *host, s *tls.ConnectionState) int {
	switch {
	case greeted == nil, h.clientAuth == tls.NoClientCert:
		return 0
	case greeted != h:
		return http.StatusMisdirectedRequest
	case h.clientAuth == tls.RequireAndVerifyClientCert && len(s.VerifiedChains) == 0, h.clientAuth == tls.RequireAnyClientCert && len(s.PeerCertificates) == 0:
		return statusNoCert
	}
	return 0
}
