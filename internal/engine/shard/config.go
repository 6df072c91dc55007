package shard

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/h2"
)

// Config holds the settings of a listener's connections. Accept reads them, and they must not
// change after it.
type Config struct {
	Listener  net.Listener
	Exchanges *exchange.Config
	Dispatch  Dispatch

	ServesHTTP1 bool
	HTTP2       *h2.Config

	TLS              *tls.Config   // nil for connections without TLS
	HandshakeTimeout time.Duration // of TLS

	// NegotiatesHTTP2 makes shards serve the connections that have negotiated HTTP/2. Otherwise
	// they leave their shards.
	NegotiatesHTTP2 bool

	// ServeNegotiated serves a TLS connection that has left its shard. Its handshake is complete.
	// The context is the connection's.
	ServeNegotiated func(context.Context, net.Conn)

	preparing  sync.Once
	conns      sync.Pool                    // of *exchange.Conn, for connections that are served
	inputs     connection.Buffers           // of conns
	lingers    bool                         // SO_LINGER is set: closing a connection may block
	placements atomic.Pointer[[]*placement] // indexed by shard
}
