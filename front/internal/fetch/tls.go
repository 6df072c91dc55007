package fetch

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/hostname"
	"github.com/tarehq/tare/internal/certs"
	"github.com/tarehq/tare/internal/client"
)

// maxTLSNames bounds the Identities that variables produce for one group.
const maxTLSNames = 64

// TLSClient has the connections of one Identity.
type TLSClient struct {
	http   *client.Client
	config *tls.Config
}

// TLS holds the TLS connections of a Proxy to a group.
type TLS struct {
	keepAlive KeepAlive
	from      *conf.ProxyTLS
	isHTTP2   bool

	mu      sync.Mutex
	clients *simplelru.LRU[Identity, *TLSClient]
}

// NewTLS returns the connections for ProxyTLS to a group.
func NewTLS(from *conf.ProxyTLS, k KeepAlive, isHTTP2 bool) *TLS {
	t := &TLS{from: from, keepAlive: k, isHTTP2: isHTTP2}
	t.clients, _ = simplelru.NewLRU(maxTLSNames, func(_ Identity, c *TLSClient) { c.http.CloseIdleConnections() })
	return t
}

// Close closes the unused connections.
func (t *TLS) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clients.Purge()
}

// Client returns the client for an Identity. An error is about the files of its certificate.
func (t *TLS) Client(id Identity) (*TLSClient, error) {
	if c, ok := t.known(id); ok {
		return c, nil
	}
	own, err := t.certificate(id)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if c, ok := t.clients.Get(id); ok {
		return c, nil
	}
	c := t.newClient(id, own)
	t.clients.Add(id, c)
	return c, nil
}

func (t *TLS) known(id Identity) (*TLSClient, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.clients.Get(id)
}

// newClient makes the client for an Identity. own is nil without a certificate in files.
func (t *TLS) newClient(id Identity, own *certs.Store) *TLSClient {
	config := t.Config(id.Name)
	if own != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			_, _ = own.Reload() // if the files are not readable any more, the last one stays
			return own.GetCertificate(nil)
		}
	}
	settings := clientConfig(t.keepAlive)
	if t.isHTTP2 {
		config.NextProtos = []string{"h2"}
		settings = http2Config(t.keepAlive, true)
	}
	return &TLSClient{client.New(settings), config}
}

// Config returns the configuration of handshakes for name. In package tls a ServerName is both sent
// and verified; here each is optional.
func (t *TLS) Config(name string) *tls.Config {
	config := t.from.Config.Clone()
	if config == nil {
		config = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // as in nginx
	}
	config.NextProtos = []string{"http/1.1"}
	if config.ClientSessionCache == nil && !t.from.NoResumption {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(maxTLSNames)
	}
	if t.from.SNI {
		config.ServerName = name
	}
	if config.InsecureSkipVerify {
		return config
	}
	verifyMore := config.VerifyConnection
	config.InsecureSkipVerify = true //nolint:gosec // VerifyConnection below verifies
	config.VerifyConnection = func(s tls.ConnectionState) error {
		chains, err := verifyUpstream(s.PeerCertificates, config.RootCAs, name)
		if err != nil || verifyMore == nil {
			return err
		}
		s.VerifiedChains = chains
		return verifyMore(s)
	}
	return config
}

// handshake makes the TLS handshake on a new connection, which it closes after an error.
func (c *TLSClient) handshake(ctx context.Context, nc net.Conn, timeout time.Duration) (net.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tc := tls.Client(nc, c.config)
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
