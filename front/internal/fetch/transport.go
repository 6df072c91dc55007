package fetch

import (
	"cmp"
	"crypto/tls"
	"net/http"
	"sync"
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

	defaultKeepaliveTimeout  = 60 * time.Second
	defaultKeepaliveTime     = time.Hour
	defaultKeepaliveRequests = 1000

	// pingAfter is how long an HTTP/2 connection to an upstream may be silent while requests use it
	// before it is checked by a PING, and pingTimeout how long the response to that may take.
	// Servers of gRPC close connections that send PINGs more often than every 5 minutes.
	pingAfter   = 5*time.Minute + 15*time.Second
	pingTimeout = 15 * time.Second
	// streamWindow bounds the part of a response that has arrived and that nobody has read.
	streamWindow = 512 << 10
)

// Servers are those of a group, with the connections to them.
type Servers struct {
	Name      string
	Peers     *upstream.Group
	Transport *Transport
}

// Close ends the lookups of the group, and its unused connections.
func (g *Servers) Close() {
	g.Peers.Close()
	g.Transport.Close()
}

// Transport holds connections to the servers of a group.
type Transport struct {
	tls   *tls.Config // nil without TLS
	http  *client.Client
	fcgi  *client.Client
	http2 func() *client.Client // made at its first use
}

// KeepAlive has the settings in which connections to groups differ.
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

// NewTransport makes a Transport, without TLS if config is nil.
func NewTransport(k KeepAlive, config *tls.Config) *Transport {
	return &Transport{
		tls:   config,
		http:  client.New(clientConfig(k)),
		fcgi:  client.NewFastCGI(clientConfig(k), &client.FastCGI{}),
		http2: sync.OnceValue(func() *client.Client { return client.New(http2Config(k, config != nil)) }),
	}
}

func clientConfig(k KeepAlive) *client.Config {
	idle := k.Conns
	if idle == 0 {
		idle = -1
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &client.Config{
		Verbatim: true, MaxConnUses: k.Requests, MaxConnAge: k.Time,
		Settings: &http.Transport{
			DisableCompression: true, Protocols: protocols,
			MaxResponseHeaderBytes: MaxHead, ReadBufferSize: readBuffer,
			MaxIdleConnsPerHost: idle, IdleConnTimeout: k.Timeout,
		},
	}
}

func http2Config(k KeepAlive, usesTLS bool) *client.Config {
	settings := clientConfig(k)
	protocols := new(http.Protocols)
	protocols.SetHTTP2(usesTLS)
	protocols.SetUnencryptedHTTP2(!usesTLS)
	settings.Settings.Protocols = protocols
	settings.Settings.MaxIdleConnsPerHost = 0 // connections are shared: keepalive does not apply
	settings.Settings.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout,
		MaxReceiveBufferPerStream: streamWindow}
	return settings
}

// Close closes the unused connections.
func (l *Transport) Close() {
	l.http.CloseIdleConnections()
	l.fcgi.CloseIdleConnections()
	l.http2().CloseIdleConnections()
}
