package shard

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/h2"
)

// Config holds what the shards need of one Serve call. It must not change after Accept.
type Config struct {
	Listener  net.Listener
	Exchanges *exchange.Config
	Dispatch  Dispatch
	HTTP2     *h2.Config

	// Plaintext, if not nil, has the settings of connections whose clients begin without TLS.
	Plaintext *Config

	preparing sync.Once
	tls       *tls.Config     // that of Exchanges, for handshakes on shards
	conns     *exchange.Conns // for connections that are served
	lingers   bool            // SO_LINGER is set: closing a connection may block
	origin    *origin         // of the connections without a context of their own
}

// origin is where connections come from: a listener, with its context or with another one.
// Connections share it, so that they hold a single pointer for both.
type origin struct {
	config *Config
	ctx    context.Context // parent of the requests' contexts
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
