package cli

import (
	"net"
	"time"

	"github.com/pires/go-proxyproto"
)

// unwrapProxied takes the PROXY protocol off connections, each of which has to begin with it.
func unwrapProxied(l net.Listener, timeout time.Duration) net.Listener {
	return proxiedListener{&proxyproto.Listener{
		Listener: l, ReadHeaderTimeout: timeout,
		ConnPolicy: func(proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) { return proxyproto.REQUIRE, nil },
	}}
}

type proxiedListener struct{ net.Listener }

// Accept implements net.Listener.
func (l proxiedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return proxiedConn{c, c.(*proxyproto.Conn).Raw().LocalAddr()}, nil
}

// proxiedConn is a connection whose other end is the client, as the proxy tells, and whose own is not what the proxy tells: hosts
// are found by it.
type proxiedConn struct {
	net.Conn
	local net.Addr
}

// LocalAddr implements net.Conn.
func (c proxiedConn) LocalAddr() net.Addr { return c.local }
