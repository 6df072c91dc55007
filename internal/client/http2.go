package client

import (
	"cmp"
	"crypto/tls"
	"errors"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/tarehq/tare/internal/client/h2"
	wire "github.com/tarehq/tare/internal/wire/http2"
)

const (
	protoHTTP1 = "http/1.1"
	protoHTTP2 = "h2"
)

// configureProtocols determines the protocols to offer, as net/http does.
func (c *Client) configureProtocols() {
	c.protocols = enabledProtocols(c.settings)
	if c.tls = c.settings.TLSClientConfig.Clone(); c.tls == nil {
		c.tls = new(tls.Config)
	}
	protos := withoutHTTP2(c.tls.NextProtos)
	if c.protocols.HTTP2() {
		protos = slices.DeleteFunc(protos, func(p string) bool { return p == protoHTTP1 })
		if c.protocols.HTTP1() {
			protos = append([]string{protoHTTP1}, protos...)
		}
		protos = append([]string{protoHTTP2}, protos...)
	}
	c.tls.NextProtos = protos
	c.http2 = http2Config(c.settings, c.maxHeadBytes)
	l := &c.pool.limits
	if l.onlyHTTP2 = !c.protocols.HTTP1(); c.settings.DisableKeepAlives {
		l.maxUses = 1
	}
	l.waitsForStreams = c.settings.HTTP2 != nil && c.settings.HTTP2.StrictMaxConcurrentRequests
}

func withoutHTTP2(protos []string) []string {
	return slices.DeleteFunc(slices.Clone(protos), func(p string) bool { return p == protoHTTP2 })
}

func enabledProtocols(s *http.Transport) http.Protocols {
	if s.Protocols != nil && *s.Protocols != (http.Protocols{}) {
		return *s.Protocols
	}
	var p http.Protocols
	p.SetHTTP1(true) // also if the set is empty: programs rely on that
	custom := s.TLSClientConfig != nil || s.DialContext != nil || s.DialTLSContext != nil
	p.SetHTTP2(s.Protocols == nil && (s.ForceAttemptHTTP2 || !custom))
	return p
}

// Defaults of http.HTTP2Config's zero fields. Windows, tables and the timeout are net/http's.
const (
	defaultConnWindow       = 1<<30 + wire.InitialWindow
	defaultStreamWindow     = 4 << 20
	defaultPingTimeout      = 15 * time.Second
	defaultWriteByteTimeout = time.Minute
	maxTableSize            = 64 << 10

	fieldOverhead = 32 // what a field adds to the size of a list (RFC 9113, 10.5.1)
)

// http2Config returns the settings of HTTP/2 connections.
func http2Config(s *http.Transport, maxHeadBytes int) *h2.Config {
	set := s.HTTP2
	if set == nil {
		set = new(http.HTTP2Config)
	}
	const typicalFields = 10 // net/http adds the overhead of ten fields to a limit of HTTP/1
	return &h2.Config{
		MaxHeadBytes: min(maxHeadBytes, maxOffset-fieldOverhead*typicalFields) + fieldOverhead*typicalFields,
		MaxFields:    maxFields,
		ConnWindow: int32(within(set.MaxReceiveBufferPerConnection, wire.InitialWindow, wire.MaxWindow,
			defaultConnWindow)),
		StreamWindow: int32(within(set.MaxReceiveBufferPerStream, 1, wire.MaxWindow, defaultStreamWindow)),
		MaxFrameSize: uint32(within(set.MaxReadFrameSize, wire.MinMaxFrameSize, wire.MaxFrameSize,
			wire.MinMaxFrameSize)),
		TableSize:    uint32(within(set.MaxDecoderHeaderTableSize, 1, maxTableSize, wire.DefaultTableSize)),
		PingAfter:    max(0, set.SendPingTimeout),
		PingTimeout:  within(set.PingTimeout, 1, math.MaxInt64, defaultPingTimeout),
		WriteTimeout: cmp.Or(max(0, set.WriteByteTimeout), defaultWriteByteTimeout),
		CountError:   set.CountError,
	}
}

// within returns v, or def if v is out of bounds.
func within[T int | time.Duration](v, least, most, def T) T {
	if v < least || v > most {
		return def
	}
	return v
}

var errNotHTTP2 = errors.New("the server does not support HTTP/2, the only enabled protocol")

// speaksHTTP2 reports whether a new connection speaks HTTP/2: state is that of TLS, or nil. Without
// HTTP/1.1, servers that negotiate no protocol must speak HTTP/2.
func (c *Client) speaksHTTP2(k *key, state *tls.ConnectionState) (bool, error) {
	switch {
	case c.http2 == nil: // FastCGI
		return false, nil
	case state != nil && state.NegotiatedProtocol == protoHTTP2:
		return true, nil
	case c.protocols.HTTP1():
		return false, nil
	case k.tls && state != nil && state.NegotiatedProtocol != "":
		return false, errNotHTTP2
	}
	return true, nil
}
