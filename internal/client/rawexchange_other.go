//go:build !linux

package client

import "net"

// talk is not needed on this system.
type rawExchange struct{}

func newRawExchange(net.Conn) *rawExchange { return nil }

func (*rawExchange) sendReceive(_, _ []byte, _ bool) (sent, received int, err error) {
	panic("client: BUG: no socket talks here")
}
