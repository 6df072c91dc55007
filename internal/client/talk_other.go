//go:build !linux

package client

import "net"

// talk is not needed on this system.
type talk struct{}

func newTalk(net.Conn) *talk { return nil }

func (*talk) ask(_, _ []byte, _ bool) (sent, received int, err error) {
	panic("client: BUG: no socket talks here")
}
