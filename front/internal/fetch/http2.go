package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
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
func (r *Request) replayBody(h *http.Request) *replay {
	if !r.Settings.IsHTTP2 || r.Spec.Body.stream == nil {
		return nil
	}
	kept := newReplay(h.Body)
	h.GetBody = kept.open
	if body, err := kept.open(); err == nil {
		h.Body = body
	}
	return kept
}

// roundTripHTTP2 sends the request by HTTP/2. Its errors are those of HTTP/1.
func (r *Request) roundTripHTTP2(a *attempt, h *http.Request) (*http.Response, error) {
	h.Close, h.ProtoMajor, h.ProtoMinor = false, 2, 0
	if h.Body != nil && a.record != nil {
		h.Body = &countedBody{h.Body, a}
	}
	c := r.TLS
	if c == nil {
		c = r.Group.Transport.http2Client()
	}
	resp, err := c.RoundTrip(h)
	var known *client.Error
	if err == nil || a.Err() != nil || errors.As(err, &known) {
		return resp, err
	}
	var stream streamError
	if errors.As(err, &stream) { // nginx counts this as an invalid response, too
		return nil, &client.Error{Side: client.Server, Kind: client.Malformed,
			During: "waiting for the response from", Addr: a.addr, Err: err}
	}
	var opErr *net.OpError
	notSent := a.hasDialFailed.Load() || errors.As(err, &opErr) && opErr.Op == "dial"
	return nil, &client.Error{Side: client.Server, Kind: client.Closed, CanRetry: notSent,
		During: "sending the request to", Addr: a.addr, Err: err}
}

// streamError is the error with which net/http reports that a stream was reset (RFC 9113, 5.4.2):
// by the server, or because its response is malformed. Its error converts itself to a type with
// these fields, for errors.As.
type streamError struct {
	StreamID, Code uint32
	Cause          error
}

// Error implements error.
func (e streamError) Error() string {
	return fmt.Sprintf("stream %d was reset: code %d", e.StreamID, e.Code)
}

// countedBody counts what HTTP/2 sends of a request's body. The connection carries the frames of
// other requests, too.
type countedBody struct {
	io.ReadCloser
	attempt *attempt
}

// Read implements io.Reader.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.attempt.request.Attempts.addTraffic(b.attempt.record, int64(n), 0)
	return n, err
}
