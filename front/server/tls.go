package server

import (
	"crypto/tls"
	"net"
	"sync/atomic"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/listenaddr"
	"github.com/tarehq/tare/internal/acme"
	"github.com/tarehq/tare/internal/certs"
)

type tlsTable map[*conf.Host]*hostTLS

// hostTLS holds a host's TLS configurations: without and with HTTP/2, and for HTTP/3.
type hostTLS struct{ http1, http2, http3 *tls.Config }

func newTLSTable(config *conf.Config, store *certStore) *tlsTable {
	table := make(tlsTable)
	for i := range config.Hosts {
		host := &config.Hosts[i]
		for n := range host.Listen {
			l := &host.Listen[n]
			hasCert := l.Certs != nil || l.Issued != nil || store.get != nil || host.RejectHandshake
			if l.TLS && table[host] == nil && hasCert {
				c := tlsConfig(config, host, l, store)
				table[host] = &hostTLS{withProtocols(c, "http/1.1"), withProtocols(c, "h2", "http/1.1"),
					withProtocols(c, "h3")}
				table[host].http3.MinVersion = tls.VersionTLS13
			}
		}
	}
	store.sessions.retain(config)
	return &table
}

// tlsConfig returns a host's TLS configuration. A host that rejects handshakes has no certificates,
// which makes crypto/tls send the same alert as nginx.
func tlsConfig(config *conf.Config, host *conf.Host, l *conf.Listen, store *certStore) *tls.Config {
	c := new(tls.Config)
	if l.TLSConfig != nil {
		c = l.TLSConfig.Clone()
	}
	if host.RejectHandshake {
		// crypto/tls requires no certificate to resume a session of TLS 1.3, and other hosts may
		// have the same keys
		c.SessionTicketsDisabled = true
		return c
	}
	if c.ClientAuth != tls.NoClientCert {
		// a ticket of this host must not admit a client to a host that requires other
		// certificates
		c.SessionTicketsDisabled = true
	}
	if l.TicketKeys != nil {
		c.SetSessionTicketKeys(l.TicketKeys)
	}
	if c.SessionTicketsDisabled && c.ClientAuth == tls.NoClientCert && l.SessionCache != "" {
		store.sessions.use(c, l)
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
	local := hello.Conn.LocalAddr()
	host, choice := findTLS(&s.tlsTable, func() (host, defaultHost *conf.Host) {
		return s.front.HostAt(local, hello.ServerName)
	})
	at := listenAt(host, local)
	switch {
	case choice == nil:
		return &tls.Config{}, nil // no certificates
	case local.Network() == "udp" && !at.HTTP3:
		return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{noProtocol}}, nil
	case local.Network() == "udp":
		return choice.http3, nil
	case at.HTTP2:
		return choice.http2, nil
	}
	return choice.http1, nil
}

// findTLS returns a host, and its TLS configurations or those of the default host. It searches
// again if a reload has replaced the table meanwhile, which may not have had the host.
func findTLS(tables *atomic.Pointer[tlsTable], find func() (host, defaultHost *conf.Host)) (*conf.Host, *hostTLS) {
	for {
		table := tables.Load()
		host, defaultHost := find()
		choice := (*table)[host]
		if choice == nil {
			choice = (*table)[defaultHost]
		}
		if choice != nil || tables.Load() == table {
			return host, choice
		}
	}
}

// noProtocol is offered to clients of a host without HTTP/3: package tls rejects the handshake.
const noProtocol = "no-http3"

// listenAt returns the Listen of a host for the address that a connection arrived at: its local
// address, or else all addresses of the port. It is the zero value if the host has none.
func listenAt(host *conf.Host, local net.Addr) *conf.Listen {
	table := listenaddr.Table[conf.Listen]{Any: new(conf.Listen)}
	if host != nil {
		for i := range host.Listen {
			_ = table.Add(host.Listen[i].Addr, &host.Listen[i]) // front.New has checked the address
		}
	}
	return table.GroupAt(local)
}
