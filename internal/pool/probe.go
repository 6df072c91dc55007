package pool

import (
	"net"
	"syscall"
)

// probe looks at a socket without reading from it.
type probe struct {
	raw      syscall.RawConn
	fd       int // while it is watched
	peek     func(fd uintptr)
	wasQuiet bool // by look: nothing has arrived, and no end
}

// newProbe returns what looks at the socket of a connection, also below TLS, or nil if it is not
// known.
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
	p.peek = func(fd uintptr) { p.wasQuiet = isQuiet(int(fd)) } // made once, and not for each call
	return p
}

// quiet reports whether nothing has arrived on the socket, nor its end.
func (p *probe) quiet() bool {
	return p.raw.Control(p.peek) == nil && p.wasQuiet
}
