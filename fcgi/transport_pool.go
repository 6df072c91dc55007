package fcgi

import (
	"cmp"
	"context"
	"fmt"
	"net"

	"github.com/tarehq/tare/internal/pool"
	"github.com/tarehq/tare/internal/roundtrip"
)

// conn is a connection to an application, or a place for one.
type conn = pool.Conn[address, struct{}]

// pool returns the connections.
func (t *Transport) pool() *pool.Pool[address, struct{}] {
	t.once.Do(func() {
		t.conns.Limits = pool.Limits{MaxConns: t.MaxConns, MaxIdlePerHost: max(t.MaxIdleConns, 0), IdleTimeout: cmp.Or(t.IdleConnTimeout, defaultIdleTimeout)}
	})
	return &t.conns
}

// connect returns a connection to an address. It waits for its turn. A fresh one takes the place
// of an idle one.
func (t *Transport) connect(ctx context.Context, at address, fresh bool) (*conn, error) {
	c, err := t.pool().Get(ctx, at, fresh)
	if err != nil {
		return nil, roundtrip.Cause(ctx)
	}
	if c.Conn == nil {
		nc, err := t.dial(ctx, at)
		if err != nil {
			c.Drop()
			return nil, err
		}
		c.Open(nc)
	}
	return c, nil
}

func (t *Transport) dial(ctx context.Context, at address) (net.Conn, error) {
	dial := t.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	bounded, cancel := context.WithTimeout(ctx, cmp.Or(t.DialTimeout, defaultDialTimeout))
	defer cancel()
	nc, err := dial(bounded, at.network, at.addr)
	switch {
	case err == nil:
		return nc, nil
	case ctx.Err() != nil:
		return nil, roundtrip.Cause(ctx)
	}
	return nil, fmt.Errorf("fcgi: cannot reach the application: %w", err)
}
