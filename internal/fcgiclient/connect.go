package fcgiclient

import (
	"cmp"
	"context"
	"fmt"
	"net"

	"github.com/tarehq/tare/internal/pool"
	"github.com/tarehq/tare/internal/roundtrip"
)

// conn is a connection to an application, or a slot for one.
type conn = pool.Conn[endpoint, struct{}]

// connect returns a connection to an address, and waits for one at the limit. With fresh, it opens
// a new connection.
func (cl *Client) connect(ctx context.Context, to endpoint, fresh bool) (*conn, error) {
	c, err := cl.pool.Get(ctx, to, fresh)
	if err != nil {
		return nil, roundtrip.Cause(ctx)
	}
	if c.Conn == nil {
		nc, err := cl.dial(ctx, to)
		if err != nil {
			c.Drop()
			return nil, err
		}
		c.Open(nc)
	}
	return c, nil
}

func (cl *Client) dial(ctx context.Context, to endpoint) (net.Conn, error) {
	dial := cl.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	bounded, cancel := context.WithTimeout(ctx, cmp.Or(cl.DialTimeout, defaultDialTimeout))
	defer cancel()
	nc, err := dial(bounded, to.network, to.addr)
	switch {
	case err == nil:
		return nc, nil
	case ctx.Err() != nil:
		return nil, roundtrip.Cause(ctx)
	}
	return nil, fmt.Errorf("fcgi: cannot connect to the application: %w", err)
}
