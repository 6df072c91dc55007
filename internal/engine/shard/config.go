package shard

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/h2"
)

// PlainConn is a net.Conn whose bytes are those of the connection beneath it; see tare.PlainConn.
type PlainConn interface {
	net.Conn
	// ReplaceConn replaces the connection beneath by the result of f, which receives it.
	ReplaceConn(f func(net.Conn) net.Conn)
}

// Config holds the settings of a listener's connections. Accept reads them, and they must not
// change after it.
type Config struct {
	Listener  net.Listener
	Exchanges *exchange.Config
	Dispatch  Dispatch

	// ConnContext and ConnState are the hooks of http.Server. Either may be nil. They receive a
	// *tls.Conn if the connection has TLS, and otherwise a net.Conn of this package.
	ConnContext func(context.Context, net.Conn) context.Context
	ConnState   func(net.Conn, http.ConnState)

	ServesHTTP1 bool
	HTTP2       *h2.Config

	TLS              *tls.Config   // nil for connections without TLS
	HandshakeTimeout time.Duration // of TLS

	// NegotiatesHTTP2 makes shards serve the connections that have negotiated HTTP/2. Otherwise
	// they leave their shards.
	NegotiatesHTTP2 bool

	// ServeNegotiated serves a TLS connection that has left its shard. Its handshake is complete,
	// and the hooks have been called for a new connection. The context is the connection's.
	ServeNegotiated func(context.Context, net.Conn)

	isWrapped  bool                         // the listener is not of package net
	lingers    bool                         // SO_LINGER is set: closing a connection may block
	placements atomic.Pointer[[]*placement] // indexed by shard
}
