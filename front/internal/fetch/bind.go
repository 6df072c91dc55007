package fetch

import (
	"net/netip"
	"sync"

	"github.com/tarehq/tare/front/conf"
)

// maxBinds bounds the local addresses that variables produce for one Proxy.
const maxBinds = 64

// Binds holds the connections of a Proxy that have a local address, except those by TLS: no request
// reuses the connection of another address.
type Binds struct {
	group *conf.Upstream

	mu         sync.Mutex
	transports map[netip.AddrPort]*Transport
}

// NewBinds returns Binds with a group's settings of connections.
func NewBinds(group *conf.Upstream) *Binds {
	return &Binds{group: group, transports: make(map[netip.AddrPort]*Transport)}
}

// Transport returns the connections with a local address.
func (b *Binds) Transport(local netip.AddrPort) *Transport {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.transports[local]
	if t == nil {
		if len(b.transports) == maxBinds { // clients may choose addresses: all are worth the same
			for other, t := range b.transports {
				t.Close()
				delete(b.transports, other)
				break
			}
		}
		t = NewTransport(b.group)
		b.transports[local] = t
	}
	return t
}

// Close closes the unused connections.
func (b *Binds) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.transports {
		t.Close()
	}
	clear(b.transports)
}
