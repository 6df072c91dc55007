package front

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/client"
)

const (
	// maxUpstreamHead bounds the head of an upstream's response.
	maxUpstreamHead = 64 << 10
	// upstreamReadBuffer is the minimum size of a read from an upstream.
	upstreamReadBuffer = 16 << 10
	// maxConnectTimeout bounds dialing; the Proxy's ConnectTimeout is usually shorter.
	maxConnectTimeout = time.Hour
	// maxTLSNames bounds the names for TLS that variables produce for one group.
	maxTLSNames = 64

	defaultKeepaliveTimeout  = 60 * time.Second
	defaultKeepaliveTime     = time.Hour
	defaultKeepaliveRequests = 1000
)

// transport holds the connections to the servers of a group, except those by TLS.
type transport struct {
	http *client.Client
	fcgi *client.Client

	config *conf.Upstream
	mu     sync.Mutex
	http2  *client.Client // without TLS; nil before its first use
}

// http2Client returns the client for HTTP/2 without TLS.
func (l *transport) http2Client() *client.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.http2 == nil {
		l.http2 = client.New(http2Config(l.config, nil))
	}
	return l.http2
}

// plainTransport returns the transport of a group. Plans with the same settings share it.
func (c *compiler) plainTransport(config *conf.Upstream) (*transport, error) {
	key := fmt.Sprintf("%q %d %v %v %d", config.Name, config.Keepalive, config.KeepaliveTimeout, config.KeepaliveTime,
		config.KeepaliveRequests)
	l, release, err := acquire(&c.state.transports, key,
		func() (*transport, error) { return newTransport(config), nil }, (*transport).close)
	if err == nil {
		c.plan.releases = append(c.plan.releases, release)
	}
	return l, err
}

func newTransport(config *conf.Upstream) *transport {
	return &transport{
		config: config,
		http:   client.New(clientConfig(config)),
		fcgi:   client.NewFastCGI(clientConfig(config), &client.FastCGI{}),
	}
}

// clientConfig returns the settings of connections to a group.
func clientConfig(config *conf.Upstream) *client.Config {
	idle := config.Keepalive
	if idle == 0 {
		idle = -1
	}
	http1 := new(http.Protocols)
	http1.SetHTTP1(true)
	return &client.Config{
		Verbatim: true, OnInterim: sendInterim, Repeatable: canRepeat, DialTimeout: maxConnectTimeout,
		MaxConnUses: cmp.Or(config.KeepaliveRequests, defaultKeepaliveRequests),
		MaxConnAge:  cmp.Or(config.KeepaliveTime, defaultKeepaliveTime),
		Settings: &http.Transport{
			DisableCompression: true, Protocols: http1, DialContext: dialUpstream,
			MaxResponseHeaderBytes: maxUpstreamHead, ReadBufferSize: upstreamReadBuffer,
			MaxIdleConnsPerHost: idle, IdleConnTimeout: cmp.Or(config.KeepaliveTimeout, defaultKeepaliveTimeout),
		},
	}
}

func (l *transport) close() {
	l.http.CloseIdleConnections()
	l.fcgi.CloseIdleConnections()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.http2 != nil {
		l.http2.CloseIdleConnections()
	}
}

// dialUpstream opens a connection for an attempt, which has the timeout.
func dialUpstream(ctx context.Context, network, addr string) (net.Conn, error) {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	if a == nil {
		return nil, errors.New("front: BUG: a connection without an attempt")
	}
	if path, ok := socketPath(addr); ok && network != "unix" { // FastCGI passes the path as it is
		network, addr = "unix", path
	}
	d := net.Dialer{Timeout: a.req.proxy.connectTimeout}
	a.startDial()
	began := time.Now()
	nc, err := d.DialContext(ctx, network, addr)
	if err == nil && a.req.tlsClient != nil {
		return nc, nil // dialTLS continues
	}
	a.endDial(time.Since(began), err)
	return nc, err
}

// hostOf returns an address as the host of a URL. The path of a unix socket is escaped to a name
// that no host has.
func hostOf(addr string) string {
	if addr[0] != '/' {
		return addr
	}
	return "/" + url.QueryEscape(addr[1:])
}

// socketPath returns the path that hostOf has escaped. A client may have added a port.
func socketPath(addr string) (string, bool) {
	if addr[0] != '/' {
		return "", false
	}
	escaped, _, _ := strings.Cut(addr[1:], ":")
	path, err := url.QueryUnescape(escaped)
	return "/" + path, err == nil
}

// tlsTransports holds the TLS connections of a Proxy to a group.
type tlsTransports struct {
	group      *conf.Upstream
	from       *conf.ProxyTLS
	isHTTP2    bool
	verifyName text // for verifying certificates; "" is the host of To

	mu      sync.Mutex
	clients map[string]*client.Client // by name
}

// tlsTransports compiles ProxyTLS. The connections end with the plan.
func (c *compiler) tlsTransports(from *conf.Proxy, g *group) (*tlsTransports, error) {
	t := &tlsTransports{from: &from.TLS, isHTTP2: from.Version == "2", clients: make(map[string]*client.Client)}
	if g != nil {
		t.group = g.peers.Config()
	} else {
		t.group = new(conf.Upstream)
	}
	var err error
	t.verifyName, err = c.text(from.TLS.Name)
	c.plan.releases = append(c.plan.releases, t.close)
	return t, err
}

func (t *tlsTransports) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.clients {
		l.CloseIdleConnections()
	}
	clear(t.clients)
}

// client returns the client whose connections are verified for name.
func (t *tlsTransports) client(name string) *client.Client {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.clients[name]
	if c == nil {
		if len(t.clients) == maxTLSNames { // clients may choose names: all are worth the same
			for other, c := range t.clients {
				c.CloseIdleConnections()
				delete(t.clients, other)
				break
			}
		}
		config := t.config(name)
		settings := clientConfig(t.group)
		if t.isHTTP2 {
			config.NextProtos = []string{"h2"}
			settings = http2Config(t.group, config)
		} else {
			settings.Settings.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				return dialTLS(ctx, network, addr, config)
			}
		}
		c = client.New(settings)
		t.clients[name] = c
	}
	return c
}

// config returns the configuration of handshakes for name. In package tls a ServerName is both sent
// and verified; here each is optional.
func (t *tlsTransports) config(name string) *tls.Config {
	config := t.from.Config.Clone()
	if config == nil {
		config = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // as in nginx
	}
	config.NextProtos = []string{"http/1.1"}
	if config.ClientSessionCache == nil {
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

// dialTLS opens a connection and makes the TLS handshake, each within ConnectTimeout.
func dialTLS(ctx context.Context, network, addr string, config *tls.Config) (net.Conn, error) {
	began := time.Now()
	nc, err := dialUpstream(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	a := ctx.Value(attemptKey{}).(*attempt)
	handshakeCtx, cancel := context.WithTimeout(ctx, a.req.proxy.connectTimeout)
	defer cancel()
	a.startDial()
	tc := tls.Client(nc, config)
	err = tc.HandshakeContext(handshakeCtx)
	a.endDial(time.Since(began), err)
	if err != nil {
		nc.Close()
		if ctx.Err() == nil && handshakeCtx.Err() != nil {
			err = context.DeadlineExceeded
		}
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return tc, nil
}
