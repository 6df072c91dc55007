package shard

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/h2"
)

// Config holds what the shards need of one Serve call. It must not change after Accept.
type Config struct {
	Listener  net.Listener
	Exchanges *exchange.Config
	Dispatch  Dispatch
	HTTP2     *h2.Config

	// NegotiatesHTTP2 makes shards serve the connections that have negotiated HTTP/2. Otherwise
	// they leave their shards.
	NegotiatesHTTP2 bool

	// ServeNegotiated serves a TLS connection that has left its shard. Its handshake is complete.
	// The context is the connection's.
	ServeNegotiated func(context.Context, net.Conn)

	// Plaintext, if not nil, has the settings of connections whose clients begin without TLS.
	Plaintext *Config

	preparing  sync.Once
	tls        *tls.Config                  // that of Exchanges, for handshakes on shards
	conns      *exchange.Conns              // for connections that are served
	lingers    bool                         // SO_LINGER is set: closing a connection may block
	placements atomic.Pointer[[]*placement] // indexed by shard
}

// placement is a listener and a shard; its connections share it. A connection with a context of its
// own has its own placement, so that others hold no pointer for one.
type placement struct {
	config *Config
	shard  *shard
	ctx    context.Context // parent of the requests' contexts; nil for that of the listener
}

// Dispatch selects where the handlers of shards run. The goroutine path ignores it, because each of
// its connections has a goroutine.
type Dispatch uint8

const (
	// Predicted runs a handler on the loop if its route has been quick, and in a goroutine of
	// its own otherwise. It is the default.
	Predicted Dispatch = iota
	// OnLoop runs all handlers on the loop, which is best if none ever blocks. A handler that
	// does block is moved off the loop after a delay.
	OnLoop
	// OwnGoroutine runs no handler on the loop.
	OwnGoroutine
)
