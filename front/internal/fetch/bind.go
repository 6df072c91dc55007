package fetch

import (
	"net/netip"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxBinds bounds the local addresses that variables produce for one Proxy.
const maxBinds = 64

// Binds holds the connections of a Proxy that have a local address, except those by TLS: no request
// reuses the connection of another address.
type Binds struct {
	keepAlive KeepAlive

	mu         sync.Mutex
	transports *simplelru.LRU[netip.AddrPort, *Transport]
}

// NewBinds returns Binds with a group's settings of connections.
func NewBinds(k KeepAlive) *Binds {
	b := &Binds{keepAlive: k}
	b.transports, _ = simplelru.NewLRU(maxBinds, func(_ netip.AddrPort, t *Transport) { t.Close() })
	return b
}

// Transport returns the connections with a local address.
func (b *Binds) Transport(local netip.AddrPort) *Transport {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.transports.Get(local)
	if ok {
		return t
	}
	t = NewTransport(b.keepAlive)
	b.transports.Add(local, t)
	return t
}

// Close closes the unused connections.
func (b *Binds) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.transports.Purge()
}
