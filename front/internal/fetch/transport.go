package fetch

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/upstream"
	"github.com/tarehq/tare/internal/client"
)

const (
	// MaxHead bounds the head of a response.
	MaxHead = 64 << 10
	// readBuffer is the minimum size of a read from a server.
	readBuffer = 16 << 10
	// maxConnectTimeout bounds dialing; ConnectTimeout is usually shorter.
	maxConnectTimeout = time.Hour

	defaultKeepaliveTimeout  = 60 * time.Second
	defaultKeepaliveTime     = time.Hour
	defaultKeepaliveRequests = 1000
)

// Group is a group of servers with its connections.
type Group struct {
	Name      string
	Peers     *upstream.Group
	Transport *Transport

	lastSocket atomic.Pointer[socketHost]
}

// socketHost is a unix socket, and its name as the host of a URL.
type socketHost struct{ path, host string }

// hostOf is the function hostOf, which makes the name of a socket only once.
func (g *Group) hostOf(addr string) string {
	if addr[0] != '/' {
		return addr
	}
	last := g.lastSocket.Load()
	if last == nil || last.path != addr {
		last = &socketHost{addr, hostOf(addr)}
		g.lastSocket.Store(last)
	}
	return last.host
}

// Close ends the lookups of the group, and its unused connections.
func (g *Group) Close() {
	g.Peers.Close()
	g.Transport.Close()
}

// Transport holds the connections to the servers of a group, except those by TLS.
type Transport struct {
	http *client.Client
	fcgi *client.Client

	keepAlive KeepAlive
	mu        sync.Mutex
	http2     *client.Client // without TLS; nil before its first use
}

// http2Client returns the client for HTTP/2 without TLS.
func (l *Transport) http2Client() *client.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.http2 == nil {
		l.http2 = client.New(http2Config(l.keepAlive, nil))
	}
	return l.http2
}

// KeepAlive is all that the connections to groups differ in.
type KeepAlive struct {
	Conns         int // idle connections that are kept to a server
	Timeout, Time time.Duration
	Requests      int
}

// KeepAliveOf returns the settings of connections to a group.
func KeepAliveOf(u *conf.Upstream) KeepAlive {
	return KeepAlive{u.Keepalive, cmp.Or(u.KeepaliveTimeout, defaultKeepaliveTimeout),
		cmp.Or(u.KeepaliveTime, defaultKeepaliveTime), cmp.Or(u.KeepaliveRequests, defaultKeepaliveRequests)}
}

// NewTransport makes the transport of a group.
func NewTransport(k KeepAlive) *Transport {
	return &Transport{
		keepAlive: k,
		http:      client.New(clientConfig(k)),
		fcgi:      client.NewFastCGI(clientConfig(k), &client.FastCGI{}),
	}
}

// clientConfig returns the settings of connections to a group.
func clientConfig(k KeepAlive) *client.Config {
	idle := k.Conns
	if idle == 0 {
		idle = -1
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &client.Config{
		Verbatim: true, OnInterim: onInterim, OnEnd: onEnd, Repeatable: canRepeat, DialTimeout: maxConnectTimeout,
		MaxConnUses: k.Requests, MaxConnAge: k.Time,
		Settings: &http.Transport{
			DisableCompression: true, Protocols: protocols, DialContext: dial,
			MaxResponseHeaderBytes: MaxHead, ReadBufferSize: readBuffer,
			MaxIdleConnsPerHost: idle, IdleConnTimeout: k.Timeout,
		},
	}
}

// Close closes the unused connections.
func (l *Transport) Close() {
	l.http.CloseIdleConnections()
	l.fcgi.CloseIdleConnections()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.http2 != nil {
		l.http2.CloseIdleConnections()
	}
}

// onInterim is the client's OnInterim.
func onInterim(r *http.Request, status int, h http.Header) error {
	if a, _ := r.Context().Value(attemptKey{}).(*attempt); a != nil {
		a.request.Caller.Interim(status, h)
	}
	return nil
}

// onEnd is the client's OnEnd.
func onEnd(ctx context.Context, sent, received int64) {
	if a, _ := ctx.Value(attemptKey{}).(*attempt); a != nil {
		a.request.Attempts.addTraffic(a.record, sent, received)
	}
}

// dial opens a connection for an attempt, which has the timeout.
func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	if a == nil {
		return nil, errors.New("fetch: BUG: a connection without an attempt")
	}
	if path, ok := socketPath(addr); ok && network != "unix" { // FastCGI passes the path as it is
		network, addr = "unix", path
	}
	d := net.Dialer{Timeout: a.request.Settings.ConnectTimeout}
	if local := a.request.Local; local.IsValid() && network != "unix" {
		d.LocalAddr, d.Control = net.TCPAddrFromAddrPort(local), bindLate(local)
	}
	a.startDial()
	began := time.Now()
	nc, err := d.DialContext(ctx, network, addr)
	if err == nil && a.request.TLS != nil {
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
