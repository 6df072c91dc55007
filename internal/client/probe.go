package client

import (
	"net"
	"syscall"

	"github.com/tarehq/tare/internal/poll"
)

// probe checks a socket without reading from it.
type probe struct {
	raw      syscall.RawConn
	fd       int              // while the socket is watched
	peek     func(fd uintptr) // allocated once, not for each call
	wasQuiet bool             // result of peek: no byte has arrived, and no end
}

// newProbe returns a probe for the socket of a connection, which may be below TLS. It returns nil
// if the socket is unknown.
func newProbe(nc net.Conn) *probe {
	for {
		below, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		nc = below.NetConn()
	}
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	p := &probe{raw: raw}
	p.peek = func(fd uintptr) { p.wasQuiet = poll.Quiet(int(fd)) }
	return p
}

// quiet reports whether no byte has arrived on the socket, and its peer has not closed it.
func (p *probe) quiet() bool {
	return p.raw.Control(p.peek) == nil && p.wasQuiet
}
