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

	"github.com/tarehq/tare/front/upstream"
	"github.com/tarehq/tare/internal/client"
	"github.com/tarehq/tare/internal/fcgiclient"
)

const (
	// maxUpstreamHead bounds the head of an upstream's answer.
	maxUpstreamHead = 64 << 10
	// receiveSize is how much is received from an upstream at a time, at least.
	receiveSize = 16 << 10
	// longestConnect bounds connecting where a Pass does not.
	longestConnect = time.Hour
	// maxNames bounds the names that variables give for TLS to one group.
	maxNames = 64

	defaultKeepaliveTimeout  = 60 * time.Second
	defaultKeepaliveTime     = time.Hour
	defaultKeepaliveRequests = 1000
)

// link is connections to the servers of a group, by all protocols that need nothing else.
type link struct {
	http *client.Client
	fcgi *fcgiclient.Client
}

// plainLink returns the connections to a group, which plans with the same settings share.
func (c *compiler) plainLink(config *upstream.Config) (*link, error) {
	key := fmt.Sprintf("%q %d %v %v %d", config.Name, config.Keepalive, config.KeepaliveTimeout, config.KeepaliveTime, config.KeepaliveRequests)
	l, giveBack, err := take(&c.state.links, key, func() (*link, error) { return newLink(config), nil }, (*link).close)
	if err == nil {
		c.plan.releases = append(c.plan.releases, giveBack)
	}
	return l, err
}

func newLink(config *upstream.Config) *link {
	return &link{
		http: client.New(httpSettings(config)),
		fcgi: fcgiclient.New(&fcgiclient.Config{
			DialContext: dialUpstream, DialTimeout: longestConnect, MaxResponseHeaderBytes: maxUpstreamHead,
			MaxIdleConns: config.Keepalive, IdleConnTimeout: cmp.Or(config.KeepaliveTimeout, defaultKeepaliveTimeout),
			MaxConnUses: cmp.Or(config.KeepaliveRequests, defaultKeepaliveRequests), MaxConnAge: cmp.Or(config.KeepaliveTime, defaultKeepaliveTime),
		}),
	}
}

// httpSettings are those of connections to a group.
func httpSettings(config *upstream.Config) *client.Config {
	idle := config.Keepalive
	if idle == 0 {
		idle = -1
	}
	http1 := new(http.Protocols)
	http1.SetHTTP1(true)
	return &client.Config{
		Verbatim: true, DisableCompression: true, Protocols: http1, OnInterim: interim, Repeatable: repeatable,
		DialContext: dialUpstream, MaxResponseHeaderBytes: maxUpstreamHead, ReadBufferSize: receiveSize,
		MaxIdleConnsPerHost: idle, IdleConnTimeout: cmp.Or(config.KeepaliveTimeout, defaultKeepaliveTimeout),
		MaxConnUses: cmp.Or(config.KeepaliveRequests, defaultKeepaliveRequests), MaxConnAge: cmp.Or(config.KeepaliveTime, defaultKeepaliveTime),
	}
}

func (l *link) close() {
	l.http.CloseIdleConnections()
	l.fcgi.CloseIdleConnections()
}

// dialUpstream opens a connection for an attempt, which bounds the time.
func dialUpstream(ctx context.Context, network, addr string) (net.Conn, error) {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	if a == nil {
		return nil, errors.New("front: BUG: a connection for nothing")
	}
	if path, ok := socketPath(addr); ok && network != "unix" { // FastCGI says it as it is
		network, addr = "unix", path
	}
	d := net.Dialer{Timeout: a.to.pass.connectTimeout}
	a.dials()
	began := time.Now()
	nc, err := d.DialContext(ctx, network, addr)
	if err == nil && a.to.secure != nil {
		return nc, nil // dialTLS goes on
	}
	a.connected(time.Since(began), err)
	return nc, err
}

// hostOf is an address as the host of a URL. The path of a socket is one that no host has.
func hostOf(addr string) string {
	if addr[0] != '/' {
		return addr
	}
	return "/" + url.QueryEscape(addr[1:])
}

// socketPath is the path that hostOf had, if it was one. A client may have added a port.
func socketPath(addr string) (string, bool) {
	if addr[0] != '/' {
		return "", false
	}
	escaped, _, _ := strings.Cut(addr[1:], ":")
	path, err := url.QueryUnescape(escaped)
	return "/" + path, err == nil
}

// tlsLinks are connections by TLS to a group, for a Pass.
type tlsLinks struct {
	group *upstream.Config
	from  *ProxyTLS
	name  text // what certificates are verified for, "" is To's host

	mu    sync.Mutex
	links map[string]*client.Client // by name
}

// tlsLinks are those of a Pass. They end with the plan.
func (c *compiler) tlsLinks(from *ProxyTLS, g *group) (*tlsLinks, error) {
	t := &tlsLinks{from: from, links: make(map[string]*client.Client)}
	if g != nil {
		t.group = g.peers.Config()
	} else {
		t.group = new(upstream.Config)
	}
	var err error
	t.name, err = c.text(from.Name)
	c.plan.releases = append(c.plan.releases, t.close)
	return t, err
}

func (t *tlsLinks) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.links {
		l.CloseIdleConnections()
	}
	clear(t.links)
}

// of returns the connections for a name.
func (t *tlsLinks) of(name string) *client.Client {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.links[name]
	if l == nil {
		if len(t.links) == maxNames { // names that clients choose: none is worth more than another
			for other, l := range t.links {
				l.CloseIdleConnections()
				delete(t.links, other)
				break
			}
		}
		settings := httpSettings(t.group)
		config := t.config(name)
		settings.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dialTLS(ctx, network, addr, config)
		}
		l = client.New(settings)
		t.links[name] = l
	}
	return l
}

// config is that of handshakes for a name. Package tls verifies what it sends; here one goes without the other.
func (t *tlsLinks) config(name string) *tls.Config {
	config := t.from.Config.Clone()
	if config == nil {
		config = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // as nginx, and said in the documents
	}
	config.NextProtos = []string{"http/1.1"}
	if config.ClientSessionCache == nil {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(maxNames)
	}
	if t.from.SNI {
		config.ServerName = name
	}
	if config.InsecureSkipVerify {
		return config
	}
	also := config.VerifyConnection
	config.InsecureSkipVerify = true //nolint:gosec // it is verified here
	config.VerifyConnection = func(s tls.ConnectionState) error {
		chains, err := verify(s.PeerCertificates, config.RootCAs, name)
		if err != nil || also == nil {
			return err
		}
		s.VerifiedChains = chains
		return also(s)
	}
	return config
}

// dialTLS opens a connection and makes its handshake, both within the time to connect.
func dialTLS(ctx context.Context, network, addr string, config *tls.Config) (net.Conn, error) {
	began := time.Now()
	nc, err := dialUpstream(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	a := ctx.Value(attemptKey{}).(*attempt)
	bounded, cancel := context.WithTimeout(ctx, a.to.pass.connectTimeout)
	defer cancel()
	a.dials()
	tc := tls.Client(nc, config)
	err = tc.HandshakeContext(bounded)
	a.connected(time.Since(began), err)
	if err != nil {
		nc.Close()
		if ctx.Err() == nil && bounded.Err() != nil {
			err = context.DeadlineExceeded
		}
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	return tc, nil
}
