//go:build !linux

package client

import (
	"net"

	"github.com/tarehq/tare/internal/connection"
)

// rawExchange exists on Linux only.
type rawExchange struct{}

func newRawExchange(net.Conn) *rawExchange { return nil }

func (*rawExchange) sendReceive(_, _ []byte, _ bool) (sent, received int, err error) {
	panic("client: BUG: rawExchange without Linux")
}

func (*rawExchange) awaitInput() {}

// AwaiterOf returns nil: only Linux can tell that a socket has input without reading from it.
func AwaiterOf(net.Conn) connection.InputAwaiter { return nil }

func (*rawExchange) isWaiting() bool { return false }
