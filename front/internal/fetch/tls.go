package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/hostname"
	"github.com/tarehq/tare/front/internal/keypair"
	"github.com/tarehq/tare/internal/certs"
)

// maxIdentities bounds the Identities that variables produce for one Proxy.
const maxIdentities = 64

// Pool holds the Transports of a Proxy whose connections depend on the request: those by TLS, and those
// with a local address.
type Pool struct {
	keepAlive KeepAlive
	from      *conf.ProxyTLS
	isHTTP2   bool

	mu         sync.Mutex
	transports *simplelru.LRU[Identity, *Transport]
}

// NewPool returns a Pool with a group's settings of connections.
func NewPool(from *conf.ProxyTLS, k KeepAlive, isHTTP2 bool) *Pool {
	p := &Pool{from: from, keepAlive: k, isHTTP2: isHTTP2}
	p.transports, _ = simplelru.NewLRU(maxIdentities, func(_ Identity, one *Transport) { one.Close() })
	return p
}

// Close closes the unused connections.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.transports.Purge()
}

// Transport returns the Transport for an Identity. An error is about the files of its certificate.
func (p *Pool) Transport(id Identity) (*Transport, error) {
	if known, ok := p.known(id); ok {
		return known, nil
	}
	own, err := p.certificate(id)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.transports.Get(id); ok {
		return known, nil
	}
	var config *tls.Config
	if id.UsesTLS {
		config = p.config(id.Name, own)
	}
	made := NewTransport(p.keepAlive, config)
	p.transports.Add(id, made)
	return made, nil
}

func (p *Pool) known(id Identity) (*Transport, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.transports.Get(id)
}

// config returns the configuration of handshakes for name. own is nil without a certificate in files.
// In package tls a ServerName is both sent and verified; here each is optional.
func (p *Pool) config(name string, own *certs.Store) *tls.Config {
	config := p.from.Config.Clone()
	if config == nil {
		config = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // as in nginx
	}
	config.NextProtos = []string{"http/1.1"}
	if p.isHTTP2 {
		config.NextProtos = []string{"h2"}
	}
	if own != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			_, _ = own.Reload() // if the files are not readable any more, the last one stays
			return own.GetCertificate(nil)
		}
	}
	if config.ClientSessionCache == nil && !p.from.NoResumption {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(maxIdentities)
	}
	if p.from.SNI {
		config.ServerName = name
	}
	if config.InsecureSkipVerify {
		return config
	}
	verifyMore := config.VerifyConnection
	config.InsecureSkipVerify = true //nolint:gosec // VerifyConnection below verifies
	config.VerifyConnection = func(s tls.ConnectionState) error {
		chains, err := verifyUpstream(s.PeerCertificates, p.from.Intermediates, config.RootCAs, name)
		if err != nil || verifyMore == nil {
			return err
		}
		s.VerifiedChains = chains
		return verifyMore(s)
	}
	return config
}

// handshake makes the TLS handshake on a new connection, which it closes after an error.
func (t *Transport) handshake(ctx context.Context, nc net.Conn, timeout time.Duration) (net.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tc := tls.Client(nc, t.tls)
	if err := tc.HandshakeContext(bounded); err != nil {
		nc.Close()
		if ctx.Err() == nil && bounded.Err() != nil {
			err = context.DeadlineExceeded
		}
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return tc, nil
}

// CertificateName returns the name in a Host field that a certificate is verified for: without the
// port. An invalid host is returned as it is: no certificate has such a name, so that verification
// fails.
func CertificateName(host string) string {
	if ip, err := netip.ParseAddrPort(host); err == nil {
		return ip.Addr().String()
	}
	if name, ok := hostname.Parse(host); ok {
		return name
	}
	return host
}

// Identity is what connections differ in: the local address, whether they use TLS, and with TLS the
// name that the server's certificate is verified for, and the files of the own certificate and its
// key, empty for none.
type Identity struct {
	Local           netip.AddrPort
	UsesTLS         bool
	Name, Cert, Key string
}

// certificate opens the certificate of an Identity, whose files are named by variables; nil if it has
// none.
func (p *Pool) certificate(id Identity) (*certs.Store, error) {
	if id.Cert == "" {
		return nil, nil
	}
	return certs.Open(certs.Config{Cert: p.certFile(id.Cert), Key: p.certFile(id.Key),
		Parse: func(cert, key []byte) (tls.Certificate, error) {
			return keypair.Parse(cert, key, p.from.Passwords)
		}})
}

func (p *Pool) certFile(name string) certFile {
	if filepath.IsAbs(name) {
		return certFile(name)
	}
	return certFile(filepath.Join(p.from.Dir, name))
}

type certFile string

// Read reads up to limit bytes. The file must be a regular one: a client may choose its name, and must
// not make the server wait.
func (f certFile) Read(limit int64) ([]byte, error) {
	info, err := os.Stat(string(f))
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New(string(f) + ": not a regular file")
	case info.Size() == 0: // such as /proc/kmsg, which never ends
		return nil, errors.New(string(f) + ": the file is empty")
	}
	file, err := os.Open(string(f))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(file, limit))
}

func (f certFile) String() string { return string(f) }
