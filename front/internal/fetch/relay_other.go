//go:build !linux

package fetch

import (
	"bufio"
	"net"
)

// Relay is not available on this system: Tunnel.Run forwards all tunnels.
type Relay struct{}

// Close does nothing.
func (*Relay) Close() {}

// WatchInput returns false.
func (*Relay) WatchInput(int, func([]byte) (goesOn, hasMore bool), func()) (stop func(), ok bool) {
	return nil, false
}

// Relayed is never made on this system.
type Relayed struct{}

// Relay returns nil.
func (*Tunnel) Relay(*Relay, net.Conn, *bufio.Reader) *Relayed { return nil }

// Begin is not called.
func (*Relayed) Begin(func(sent int64, why *TunnelError)) {}

// Close is not called.
func (*Relayed) Close() {}
