package listen

import (
	"context"
	"fmt"
	"net"
)

// TakePackets returns the UDP sockets that are not in use. From now on they are.
func (p *Passed) TakePackets() (all []Socket) {
	for i := range p.sockets {
		if p.sockets[i].Packets != nil {
			all = append(all, p.use(i))
		}
	}
	return all
}

// Packets opens a UDP socket, or returns one that was passed. The network of the Spec is "udp",
// "udp4" or "udp6".
func Packets(s Spec, passed ...*Passed) (*net.UDPConn, error) {
	for _, p := range passed {
		if conn := p.At(s).Packets; conn != nil {
			return conn, nil
		}
	}
	conn, err := new(net.ListenConfig).ListenPacket(context.Background(), s.Network, s.Address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s, explain(err))
	}
	return conn.(*net.UDPConn), nil
}
