package fetch

import (
	"net/netip"
	"sync"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/lru"
)

// maxBinds bounds the local addresses that variables produce for one Proxy.
const maxBinds = 64

// Binds holds the connections of a Proxy that have a local address, except those by TLS: no request
// reuses the connection of another address.
type Binds struct {
	group *conf.Upstream

	mu         sync.Mutex
	transports *lru.Map[netip.AddrPort, *Transport]
}

// NewBinds returns Binds with a group's settings of connections.
func NewBinds(group *conf.Upstream) *Binds {
	return &Binds{group: group, transports: lru.New[netip.AddrPort, *Transport](maxBinds)}
}

// Transport returns the connections with a local address.
func (b *Binds) Transport(local netip.AddrPort) *Transport {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.transports.Get(local)
	if ok {
		return t
	}
	t = NewTransport(b.group)
	if dropped, ok := b.transports.Add(local, t); ok {
		dropped.Close()
	}
	return t
}

// Close closes the unused connections.
func (b *Binds) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.transports.Clear() {
		t.Close()
	}
}
