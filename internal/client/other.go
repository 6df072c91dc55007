//go:build !linux

package client

import (
	"net"
	"time"
)

// rawExchange exists on Linux only.
type rawExchange struct{}

func newRawExchange(net.Conn) *rawExchange { return nil }

func (*rawExchange) sendReceive(_, _ []byte, _ bool) (sent, received int, err error) {
	panic("client: BUG: rawExchange without Linux")
}

func (*rawExchange) awaitInput() {}

func (*rawExchange) receive([]byte) (int, error) { panic("client: BUG: rawExchange without Linux") }

func (*rawExchange) direct() net.Conn { return nil }

// Direct returns nc: see directConn.
func Direct(nc net.Conn) net.Conn { return nc }

func (*rawExchange) unwatch() {}

// inputOnly returns nc: see the version for Linux.
func inputOnly(nc *net.UnixConn) net.Conn { return nc }

// socketWatcher does nothing on this system: a goroutine watches each connection.
type socketWatcher struct{}

func (p *pool) watchSocket(*conn) bool { return false }

func (p *pool) unwatch(*conn) {}

func (p *pool) closeEmptyWatcher(time.Time) (at time.Time, ok bool) { return at, false }

func (p *pool) stopWatching() {}
