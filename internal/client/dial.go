package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
)

// openConn opens the connection of an exchange.
func (c *Client) openConn(x *slab) error {
	nc, state, err := c.dial(x)
	isHTTP2 := false
	if err == nil {
		if isHTTP2, err = c.speaksHTTP2(&x.key, state); err != nil {
			go nc.Close() // Close may block
		}
	}
	if err != nil {
		failed := x.connectError(err)
		if x.ctx.Err() != nil {
			err = nil
		}
		x.conn.failToOpen(err)
		return failed
	}
	x.conn.tlsState = state
	if tc, ok := nc.(*tls.Conn); ok {
		x.conn.setTLS(tc)
	}
	if isHTTP2 {
		if other := x.conn.openHTTP2(nc, c.http2); other != nil {
			go nc.Close() // Close may block
			x.conn.drop()
			x.conn, x.openedConn = other, false
		}
		return nil
	}
	x.conn.openedHTTP1()
	if u, ok := nc.(*net.UnixConn); ok && c.config.Verbatim {
		nc = inputOnly(u)
	}
	x.conn.raw = newRawExchange(nc)
	x.conn.open(nc)
	return nil
}

// connectError returns the error of an exchange that got no connection.
func (x *exchange) connectError(err error) error {
	if x.ctx.Err() != nil {
		return contextCause(x.ctx)
	}
	side, kind := Server, CannotConnect
	if viaProxy := (*proxyError)(nil); errors.As(err, &viaProxy) {
		side = Proxy
	} else if plain := (tls.RecordHeaderError{}); errors.As(err, &plain) && string(plain.RecordHeader[:]) == "HTTP/" {
		err = fmt.Errorf("%w: %w", http.ErrSchemeMismatch, err) // http.Client does it for http.Transport
	}
	if isTimeout(err) || errors.Is(err, context.DeadlineExceeded) {
		kind = TimedOut
	}
	x.isUnprocessed = true
	return x.newError(side, kind, whileConnecting, err)
}

// dial opens a connection for an exchange, with TLS if its key requires it. The state is that of
// TLS with the server, or with a proxy that forwards the request.
func (c *Client) dial(x *slab) (nc net.Conn, state *tls.ConnectionState, err error) {
	ctx, k := x.ctx, &x.key
	switch hooks := x.scratch.call.hooks(); {
	case hooks != nil:
		nc, err = hooks.Dial(ctx)
	case k.tls && k.proxy == "" && k.address == "" && c.settings.DialTLSContext != nil:
		nc, err = c.dialWith(ctx, c.settings.DialTLSContext, "tcp", k.addr())
	default:
		nc, state, err = c.dialPlain(ctx, k)
		if err != nil || !k.tls {
			return nc, state, err
		}
		nc = tls.Client(&underTLS{Conn: nc}, c.tlsFor(k.host, k.address == "" && !k.onlyHTTP1))
	}
	if err != nil {
		return nil, nil, err
	}
	return c.handshake(ctx, nc, x.trace)
}

// dialPlain opens the connection below TLS for a key. The state is that of TLS with a proxy.
func (c *Client) dialPlain(ctx context.Context, k *key) (nc net.Conn, state *tls.ConnectionState, err error) {
	network, addr := "tcp", c.config.Addr
	switch {
	case k.proxy != "":
		return c.dialProxy(ctx, k)
	case k.address != "":
		network, addr = k.network, k.address
	case addr != "" && addr[0] == '@':
		network = "unix"
	case addr != "":
		network = networkOf(addr)
	default:
		addr = k.addr()
	}
	nc, err = c.dialWith(ctx, c.settings.DialContext, network, addr)
	return nc, nil, err
}

// dialWith calls dial, or dials itself if that is nil.
func (c *Client) dialWith(ctx context.Context, dial func(_ context.Context, network, addr string) (net.Conn, error),
	network, addr string) (net.Conn, error) {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	if d := c.config.DialTimeout; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	nc, err := dial(ctx, network, addr)
	if err == nil && nc == nil {
		err = errors.New("tare: the dialer returned neither a connection nor an error")
	}
	return nc, err
}

// tlsFor returns the configuration of a handshake with a host.
func (c *Client) tlsFor(host string, offersHTTP2 bool) *tls.Config {
	config := c.tls.Clone()
	config.ServerName = cmp.Or(config.ServerName, host)
	if !offersHTTP2 {
		config.NextProtos = withoutHTTP2(config.NextProtos)
	}
	return config
}

// secureConn is a *tls.Conn, or a connection of DialTLSContext that reports its TLS state.
type secureConn interface {
	net.Conn
	ConnectionState() tls.ConnectionState
}

// handshake performs the TLS handshake of a connection that has TLS. If it fails, it closes the
// connection.
func (c *Client) handshake(
	ctx context.Context, nc net.Conn, trace *httptrace.ClientTrace) (net.Conn, *tls.ConnectionState, error) {
	tc, ok := nc.(secureConn)
	if !ok {
		return nc, nil, nil
	}
	bounded := ctx
	if d := c.settings.TLSHandshakeTimeout; d > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	if trace != nil && trace.TLSHandshakeStart != nil {
		trace.TLSHandshakeStart()
	}
	var err error
	if shaker, ok := tc.(interface{ HandshakeContext(context.Context) error }); ok {
		err = shaker.HandshakeContext(bounded)
	}
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = textError{"net/http: TLS handshake timeout", os.ErrDeadlineExceeded}
	}
	state := tc.ConnectionState()
	if trace != nil && trace.TLSHandshakeDone != nil {
		trace.TLSHandshakeDone(state, err)
	}
	if err != nil {
		go func() { _ = tc.Close() }() // Close may block
		return nil, nil, err
	}
	return tc, &state, nil
}
