package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/anchor"
	"github.com/tarehq/tare/internal/certs"
)

// certStore holds the certificates named by hosts, each once.
type certStore struct {
	served  map[conf.CertFiles]*servedCert
	running sync.WaitGroup
}

// servedCert is a certificate that is served.
type servedCert struct {
	*certs.Store
	files []*anchor.File
	stop  context.CancelFunc // nil unless its files are watched
}

func newCertStore() *certStore { return &certStore{served: make(map[conf.CertFiles]*servedCert)} }

// load reads the certificates of a Config that are not loaded yet. After an error, none of them
// remains loaded.
func (b *certStore) load(config *conf.Config, add func(string)) error {
	var added []conf.CertFiles
	for i := range config.Hosts {
		host := &config.Hosts[i]
		for _, l := range host.Listen {
			for _, pair := range l.Certs {
				if b.served[pair] != nil {
					continue
				}
				held, err := openCert(pair, add)
				if err != nil {
					for _, pair := range added {
						b.drop(pair)
					}
					return fmt.Errorf("%s: %w", host.Pos, err)
				}
				b.served[pair] = held
				added = append(added, pair)
			}
		}
	}
	return nil
}

// retain closes the certificates that a Config does not name.
func (b *certStore) retain(config *conf.Config) {
	named := make(map[conf.CertFiles]bool)
	for i := range config.Hosts {
		for _, l := range config.Hosts[i].Listen {
			for _, pair := range l.Certs {
				named[pair] = true
			}
		}
	}
	for pair := range b.served {
		if !named[pair] {
			b.drop(pair)
		}
	}
}

func openCert(pair conf.CertFiles, add func(string)) (*servedCert, error) {
	held := &servedCert{}
	for _, path := range []string{pair.Cert, pair.Key} {
		a, err := anchor.New(path)
		if err != nil {
			held.close()
			return nil, err
		}
		held.files = append(held.files, a)
	}
	var err error
	if held.Store, err = certs.Open(certs.Config{Cert: held.files[0], Key: held.files[1], Log: add}); err != nil {
		held.close()
		return nil, err
	}
	return held, nil
}

// watch reloads certificates when their files change. It calls fail for those that are no longer
// readable.
func (b *certStore) watch(fail func(text string)) {
	for pair, held := range b.served {
		if held.stop != nil {
			continue
		}
		text := fmt.Sprintf("certificate: %s, %s", pair.Cert, held.Describe(time.Now()))
		if _, err := held.Reload(); err != nil {
			fail(fmt.Sprintf("%s: %v", text, err))
			continue
		}
		var ctx context.Context
		ctx, held.stop = context.WithCancel(context.Background())
		b.running.Go(func() { held.Watch(ctx) })
	}
}

// reload rereads all certificates and prints the outcome.
func (b *certStore) reload(add func(string)) {
	for pair, held := range b.served {
		changed, err := held.Reload()
		switch {
		case err != nil:
			add(fmt.Sprintf("certificate: %s: still serving the old one: %v", pair.Cert, err))
		case changed:
			add(fmt.Sprintf("certificate: %s: serving a new one: %s", pair.Cert, held.Describe(time.Now())))
		}
	}
}

func (b *certStore) drop(pair conf.CertFiles) {
	b.served[pair].close()
	delete(b.served, pair)
}

func (b *certStore) close() {
	for pair := range b.served {
		b.drop(pair)
	}
	b.running.Wait()
}

func (h *servedCert) close() {
	if h.stop != nil {
		h.stop()
	}
	for _, f := range h.files {
		f.Close()
	}
}

// tlsTable maps each Host to its TLS configurations.
type tlsTable map[*conf.Host]*hostTLS

// hostTLS holds a host's TLS configurations, without and with HTTP/2.
type hostTLS struct{ http1, http2 *tls.Config }

func newTLSTable(config *conf.Config, book *certStore) *tlsTable {
	table := make(tlsTable)
	for i := range config.Hosts {
		host := &config.Hosts[i]
		for n := range host.Listen {
			if l := &host.Listen[n]; l.TLS && table[host] == nil && (l.Certs != nil || host.RejectHandshake) {
				c := tlsConfig(host, l, book)
				table[host] = &hostTLS{withProtocols(c, "http/1.1"), withProtocols(c, "h2", "http/1.1")}
			}
		}
	}
	return &table
}

// tlsConfig returns a host's TLS configuration. A host that rejects handshakes has no certificates,
// which makes crypto/tls send the same alert as nginx.
func tlsConfig(host *conf.Host, l *conf.Listen, book *certStore) *tls.Config {
	c := new(tls.Config)
	if l.TLSConfig != nil {
		c = l.TLSConfig.Clone()
	}
	if c.ClientAuth != tls.NoClientCert {
		// a ticket of this host must not admit a client to a host that requires other certificates
		c.SessionTicketsDisabled = true
	}
	if host.RejectHandshake {
		return c
	}
	var all []*certs.Store
	for _, pair := range l.Certs {
		all = append(all, book.served[pair].Store)
	}
	c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
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
func (s *frontServer) configForClient(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	local, table := hello.Conn.LocalAddr(), *s.tlsTable.Load()
	host := s.handler.HostAt(local, hello.ServerName)
	choice := table[host]
	if choice == nil {
		choice = table[s.handler.DefaultAt(local)]
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
	spoken := false
	for i := range host.Listen {
		switch l := &host.Listen[i]; l.Addr {
		case own:
			return l.HTTP2
		case v4, v6:
			spoken = spoken || l.HTTP2
		}
	}
	return spoken
}
