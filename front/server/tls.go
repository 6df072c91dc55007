package server

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/acme"
	"github.com/tarehq/tare/internal/certs"
)

// tlsTable maps each Host to its TLS configurations.
type tlsTable map[*conf.Host]*hostTLS

// hostTLS holds a host's TLS configurations, without and with HTTP/2.
type hostTLS struct{ http1, http2 *tls.Config }

func newTLSTable(config *conf.Config, store *certStore) *tlsTable {
	table := make(tlsTable)
	for i := range config.Hosts {
		host := &config.Hosts[i]
		for n := range host.Listen {
			l := &host.Listen[n]
			hasCert := l.Certs != nil || l.Issued != nil || store.get != nil || host.RejectHandshake
			if l.TLS && table[host] == nil && hasCert {
				c := tlsConfig(config, host, l, store)
				table[host] = &hostTLS{withProtocols(c, "http/1.1"), withProtocols(c, "h2", "http/1.1")}
			}
		}
	}
	return &table
}

// tlsConfig returns a host's TLS configuration. A host that rejects handshakes has no certificates,
// which makes crypto/tls send the same alert as nginx.
func tlsConfig(config *conf.Config, host *conf.Host, l *conf.Listen, store *certStore) *tls.Config {
	c := new(tls.Config)
	if l.TLSConfig != nil {
		c = l.TLSConfig.Clone()
	}
	if c.ClientAuth != tls.NoClientCert {
		// a ticket of this host must not admit a client to a host that requires other
		// certificates
		c.SessionTicketsDisabled = true
	}
	if host.RejectHandshake {
		return c
	}
	var all []*certs.Store
	for _, pair := range l.Certs {
		all = append(all, store.served[pair].store)
	}
	var issued *acme.Certificate
	if l.Issued != nil {
		issued = store.issued.Lookup(config, l.Issued)
	}
	c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if store.get != nil {
			if cert, err := store.get(hello); cert != nil || err != nil {
				return cert, err
			}
		}
		if issued != nil {
			if cert, err := issued.GetCertificate(hello); cert != nil || err != nil {
				return cert, err
			}
		}
		if len(all) == 0 {
			return nil, nil // package tls rejects the handshake: unrecognized name
		}
		for _, store := range all {
			if cert, err := store.GetCertificate(hello); err == nil && hello.SupportsCertificate(cert) == nil {
				return cert, nil
			}
		}
		return all[0].GetCertificate(hello) // for its error
	}
	return c
}

func withProtocols(c *tls.Config, protocols ...string) *tls.Config {
	c = c.Clone()
	c.NextProtos = protocols
	return c
}

// configForClient returns the TLS configuration of the host that the client names, or of the
// address's default host.
func (s *Server) configForClient(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if config := s.issued.ChallengeConfig(hello); config != nil {
		return config, nil
	}
	local, table := hello.Conn.LocalAddr(), *s.tlsTable.Load()
	host := s.site.HostAt(local, hello.ServerName)
	choice := table[host]
	if choice == nil {
		choice = table[s.site.DefaultAt(local)]
	}
	switch {
	case choice == nil:
		return &tls.Config{}, nil // no certificates
	case allowsHTTP2(host, local):
		return choice.http2, nil
	}
	return choice.http1, nil
}

// allowsHTTP2 reports whether a host allows HTTP/2 at a local address: at exactly that address, or
// at all addresses of the port.
func allowsHTTP2(host *conf.Host, local net.Addr) bool {
	if host == nil {
		return false
	}
	own, v4, v6 := "unix:"+local.String(), "", ""
	if addr, err := netip.ParseAddrPort(local.String()); err == nil {
		ip, port := addr.Addr().Unmap(), addr.Port()
		own, v6 = netip.AddrPortFrom(ip, port).String(), fmt.Sprintf("[::]:%d", port)
		if ip.Is4() {
			v4 = fmt.Sprintf("*:%d", port)
		}
	}
	speaks := false
	for i := range host.Listen {
		switch l := &host.Listen[i]; l.Addr {
		case own:
			return l.HTTP2
		case v4, v6:
			speaks = speaks || l.HTTP2
		}
	}
	return speaks
}
