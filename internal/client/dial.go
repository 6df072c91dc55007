package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"time"
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
	if tc, ok := nc.(*tls.Conn); ok {
		x.conn.info = connInfoOf(tc, state)
	} else {
		x.conn.info.tlsState = state
	}
	if isHTTP2 {
		x.useHTTP2(nc)
		return nil
	}
	x.conn.openedHTTP1()
	if u, ok := nc.(*net.UnixConn); ok && c.config.Verbatim {
		nc = inputOnly(u)
	}
	x.conn.info.raw = newRawExchange(nc)
	x.conn.open(nc)
	return nil
}

// useHTTP2 assigns a new connection to the exchange, or another one that has a free stream by now.
func (x *slab) useHTTP2(nc net.Conn) {
	if other := x.conn.otherStream(); other != nil {
		go nc.Close() // Close may block
		x.conn.drop()
		x.conn, x.openedConn = other, false
		return
	}
	x.conn.Conn = nc
	x.conn.openHTTP2(x.client.http2)
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

// dial opens a connection for an exchange, with TLS if its key requires it.
func (c *Client) dial(x *slab) (nc net.Conn, state *tls.ConnectionState, err error) {
	ctx, k := x.ctx, &x.key
	switch hooks := x.scratch.call.hooks(); {
	case hooks != nil:
		nc, err = hooks.Dial(ctx)
	case k.tls && k.proxy == "" && k.address == "" && c.settings.DialTLSContext != nil:
		nc, err = c.settings.DialTLSContext(ctx, "tcp", k.addr())
	default:
		nc, err = c.dialPlain(ctx, k)
		if err != nil || !k.tls {
			return nc, nil, err
		}
		return c.handshake(ctx, tls.Client(&underTLS{Conn: nc}, c.tlsFor(k)), x.trace)
	}
	tc, ok := nc.(secureConn)
	if err != nil || !ok {
		return nc, nil, err
	}
	return c.handshake(ctx, tc, x.trace)
}

// dialPlain opens the connection below TLS for a key.
func (c *Client) dialPlain(ctx context.Context, k *key) (net.Conn, error) {
	switch addr := c.config.Addr; {
	case k.proxy != "":
		return c.dialProxy(ctx, k)
	case k.address != "":
		return c.dialNetwork(ctx, k.network, k.address)
	case addr != "" && addr[0] == '@':
		return c.dialNetwork(ctx, "unix", addr)
	case addr != "":
		return c.dialNetwork(ctx, networkOf(addr), addr)
	}
	return c.dialNetwork(ctx, "tcp", k.addr())
}

func (c *Client) dialNetwork(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := c.settings.DialContext
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
		err = errors.New("tare: DialContext returned neither a connection nor an error")
	}
	return nc, err
}

// tlsFor returns the configuration of a handshake with a key's server.
func (c *Client) tlsFor(k *key) *tls.Config {
	config := c.tls.Clone()
	if config.ServerName == "" {
		config.ServerName = k.host
	}
	if k.address != "" {
		config.NextProtos = []string{protoHTTP1}
	}
	return config
}

// secureConn is a *tls.Conn, or a connection of DialTLSContext that reports its TLS state.
type secureConn interface {
	net.Conn
	ConnectionState() tls.ConnectionState
}

// handshake performs the TLS handshake. If it fails, it closes the connection.
func (c *Client) handshake(
	ctx context.Context, tc secureConn, trace *httptrace.ClientTrace) (net.Conn, *tls.ConnectionState, error) {
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
		err = handshakeTimeout{}
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

// handshakeTimeout is the error if TLSHandshakeTimeout passes.
type handshakeTimeout struct{}

func (handshakeTimeout) Error() string { return "net/http: TLS handshake timeout" }

func (handshakeTimeout) Unwrap() error { return os.ErrDeadlineExceeded }

// withDeadline calls f, which makes a proxy connect, with a deadline at the end of ctx or of
// proxyConnectTimeout.
func withDeadline(ctx context.Context, nc net.Conn, f func() error) error {
	_ = nc.SetDeadline(time.Now().Add(proxyConnectTimeout))
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	err := f()
	if !stop() {
		return contextCause(ctx)
	}
	_ = nc.SetDeadline(time.Time{})
	return err
}
