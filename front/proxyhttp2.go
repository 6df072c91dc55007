package front

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/client"
)

const (
	// pingAfter is how long an HTTP/2 connection to an upstream may be silent while requests use it
	// before it is checked by a PING, and pingTimeout how long the response to that may take.
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
)

// http2Config returns the settings of HTTP/2 connections to a group. config is nil without TLS.
//
// The client opens a connection for several requests. The first of them dials: its context, and so
// its attempt, belongs to it until that has ended, even if the request has ended before. So such
// attempts are never reused: a registration with their context keeps them from that.
func http2Config(group *conf.Upstream, config *tls.Config) *client.Config {
	settings := clientConfig(group)
	protocols := new(http.Protocols)
	if config != nil {
		protocols.SetHTTP2(true)
		settings.Settings.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dialTLS(ctx, network, addr, config)
		}
	} else {
		protocols.SetUnencryptedHTTP2(true)
	}
	settings.Settings.Protocols = protocols
	settings.Settings.MaxIdleConnsPerHost = 0 // connections are shared: keepalive does not apply
	settings.Settings.IdleConnTimeout = cmp.Or(group.KeepaliveTimeout, defaultKeepaliveTimeout)
	settings.Settings.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout}
	return settings
}

// replayBody makes a streamed body repeatable, as far as HTTP/2 needs that; else it returns nil.
func (s *upstreamRequest) replayBody(r *http.Request) *replay {
	if !s.proxy.header.isHTTP2 || s.spec.body.stream == nil {
		return nil
	}
	kept := newReplay(r.Body)
	r.GetBody = kept.open
	if body, err := kept.open(); err == nil {
		r.Body = body
	}
	return kept
}

// roundTripHTTP2 sends the request by HTTP/2. Its errors are those of HTTP/1.
func (s *upstreamRequest) roundTripHTTP2(a *attempt, r *http.Request) (*http.Response, error) {
	r.Close, r.ProtoMajor, r.ProtoMinor = false, 2, 0
	c := s.tlsClient
	if c == nil {
		c = s.group.transport.http2Client()
	}
	resp, err := c.RoundTrip(r)
	var known *client.Error
	if err == nil || a.Err() != nil || errors.As(err, &known) {
		return resp, err
	}
	var dial *net.OpError
	notSent := a.hasDialFailed.Load() || errors.As(err, &dial) && dial.Op == "dial"
	return nil, &client.Error{Side: client.Server, Kind: client.Closed, CanRetry: notSent,
		During: "sending the request to", Addr: a.addr, Err: err}
}
